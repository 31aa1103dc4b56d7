//! Runs the model checker and the simulator; see `cargo xtask check-model` and `cargo xtask sim`.
use sim::model::{catalogue,walk};
use stateright::{Checker, Model};
use archipel_cluster::register::Rules;
use archipel_cluster::register::rules::Mutant;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: u64 = args[2].parse().unwrap();
    if args[1] == "walk" {
        for s in catalogue::walks() {
            let t = std::time::Instant::now();
            let w = walk::walk(&s, 0..n);
            println!("{} {w:?} {:?}", s.name, t.elapsed());
            if let Some(v) = w.violation {
                let (_, w) = walk::walk_once(&s, v, |a, _| println!("{a:?}"));
                println!("{:#?}", w.history());
                return;
            }
        }
    }
    if args[1] == "mutants" {
        for m in Mutant::ALL.into_iter().filter(|m| args.len()<4 || format!("{m:?}")==args[3]) {
            for mut s in catalogue::walks() {
                s.rules = Rules::broken(m);
                let t = std::time::Instant::now();
                let w = walk::walk(&s, 0..n);
                println!("{m:?} {} {w:?} {:?}", s.name, t.elapsed());
            }
        }
    }
    if args[1] == "dfs" {
    for s in catalogue::small().into_iter().chain(catalogue::large()) {
        let name = s.name;
        let t = std::time::Instant::now();
        let c = s.checker().threads(2).target_state_count(n as usize).spawn_dfs().join();
        println!("{name} {} {} {:?} {:?}", c.unique_state_count(), c.state_count(), c.discoveries().len(), t.elapsed());
        if let Some(p) = c.discovery("linearizable") {
            println!("{:#?}", p.into_actions());
        }
    }
    }
}
