#!/bin/sh
# Takes the figures of docs/benchmarks.md again, one experiment after another, and renders them as one page. As root, on a
# machine that does nothing else; how long it takes as a whole has not been measured.
#
#   cargo build --profile dist -p archipel -p bench -p netlab
#   cargo install garage --root target/peers
#   tools/bench/retake.sh [FOLDER [EXPERIMENT...]]
#
# FOLDER (results) gets a folder for each experiment, with what it printed and its figures as JSON, and report.html.
# Without names all are run; the names stand below. With GARAGE= (empty) Archipel is measured alone.
set -u
cd "$(dirname "$0")/../.."
folder=${1:-results}
[ $# -gt 0 ] && shift
wanted=" $* "
garage=${GARAGE-target/peers/bin/garage}
bench=target/dist/bench
# Garage once more, with fsync.
fsync=${garage:+--garage-fsync}

# take NAME lab|peers|engines|tls TOPOLOGY EXPERIMENT [OPTIONS...] -- [ITS OPTIONS...]
take() {
    name=$1
    shift
    case "$wanted" in
    "  " | *" $name "*) ;;
    *) return ;;
    esac
    how=$1
    shift
    [ "$how" = peers ] && [ -n "$garage" ] && set -- --garage "$garage" "$@"
    mkdir -p "$folder/$name"
    echo "== $name: bench $how $*"
    # A figure that cannot be had does not keep the others from being had.
    "$bench" "$how" --results "$folder/$name" "$@" >"$folder/$name/log" 2>&1 || echo "failed: see $folder/$name/log"
    tail -n 16 "$folder/$name/log"
}

take five-sites peers five-sites lat -- --count 40
take three-sites peers three-sites lat -- --count 25
take fifty-ms peers fifty-ms lat -- --count 30
take ttfb peers thin ttfb -- --sizes-mib 1,1024 --count 8 --pause-s 6
take mixed-large peers near mixed --turns 2 -- --size 4718592 --clients 8 --objects 60 --seconds 12
take mixed-small peers near mixed $fsync --turns 2 -- --size 256 --clients 16 --seconds 12
take put-small peers near mixed $fsync --turns 2 -- --size 256 --clients 16 --seconds 12 --weights 0,0,1,0
take list lab near list -- --keys 1000000 --count 2
take billion lab near billion -- --batches 123 --batch 8192 --clients 64
take billion-4k lab near billion -- --batches 123 --batch 8192 --clients 64 --size 4096
take k2v lab near k2v -- --polls-per-connection 64
take k2v-http1 lab near k2v -- --items 2000
take k2v-fifty-ms lab fifty-ms k2v -- --items 2000 --polls-per-connection 250
take tls-small tls near mixed -- --size 65536 --clients 16 --seconds 10
take tls-large tls near mixed -- --size 4718592 --clients 8 --objects 60 --seconds 10
take encrypted lab near encrypted
take versioned lab near versioned
take expiry lab near expiry
take beside lab lossy beside -- --size-mib 1024
take engines engines near mixed --turns 2 -- --size 256 --clients 16 --seconds 12
take engines-buffered engines near mixed --buffered --turns 2 -- --size 256 --clients 16 --seconds 12
take scale scale lat --nodes 3,9,30,60,100,150 -- --count 15

"$bench" report "$folder"/*/*.json --out "$folder/report.html"
