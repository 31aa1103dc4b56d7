//! The definition of the command line, with an example of each command that takes arguments.

use clap::{Command, CommandFactory};

use super::Cli;

/// The examples. Each belongs to the command that it begins with.
const EXAMPLES: &[&str] = &[
    "demo --nodes 5",
    "server --config /etc/archipel/archipel.toml",
    "init --nodes 3 --address a.example.net:3901 --others b.example.net:3901,c.example.net:3901 --zone paris",
    "bucket create photos --owner AKexample",
    "bucket list --prefix photo",
    "bucket info photos",
    "bucket alias add photos pictures",
    "bucket alias remove photos pictures",
    "bucket alias list photos",
    "bucket versioning show photos",
    "bucket versioning enable photos",
    "bucket versioning suspend photos",
    "bucket lock show photos",
    "bucket lock set photos --mode governance --days 30",
    "bucket quota show photos",
    "bucket quota set photos --size 500GiB --objects 1000000",
    "bucket tag list photos",
    "bucket tag set photos team=storage cost=12",
    "bucket lifecycle show photos --json > rules.json",
    "bucket lifecycle set photos rules.json",
    "bucket lifecycle delete photos",
    "bucket notifications show photos --json > rules.json",
    "bucket notifications set photos rules.json",
    "bucket notifications delete photos",
    "bucket cors show photos --json > rules.json",
    "bucket cors set photos rules.json",
    "bucket cors delete photos",
    "bucket encryption show photos",
    "bucket encryption enable photos",
    "bucket encryption disable photos",
    "bucket public-access show photos",
    "bucket public-access set photos --all true",
    "bucket ownership show photos",
    "bucket ownership set photos BucketOwnerEnforced",
    "bucket policy show photos > policy.json",
    "bucket policy set photos policy.json",
    "bucket policy delete photos",
    "bucket publish photos",
    "bucket unpublish photos",
    "bucket uploads photos --abort --older-than 7d --dry-run",
    "bucket object photos 2026/beach.jpg",
    "bucket delete photos --dry-run",
    "website enable photos --index index.html --error error.html",
    "website redirect photos www.example.org --protocol https",
    "website disable photos",
    "website show photos",
    "key create laptop --expires 30d",
    "key import AKexample --secret-file secret --name laptop",
    "key list --name laptop",
    "key info AKexample",
    "key rename AKexample desktop",
    "key delete AKexample --dry-run",
    "key disable AKexample",
    "key enable AKexample",
    "key expire AKexample 30d",
    "key allow AKexample --bucket photos --read --write",
    "key deny AKexample --bucket photos --write",
    "user create ann --policy AmazonS3ReadOnlyAccess",
    "user list --group editors",
    "user info ann",
    "user key ann",
    "user disable ann",
    "user enable ann",
    "user attach ann photos-read",
    "user detach ann photos-read",
    "user quota show ann",
    "user quota set ann --size 500GiB",
    "user policy set ann photos policy.json",
    "user policy show ann photos",
    "user policy delete ann photos",
    "user delete ann --dry-run",
    "group create editors",
    "group list --prefix edit",
    "group info editors",
    "group add editors ann bob",
    "group remove editors bob",
    "group attach editors photos-read",
    "group detach editors photos-read",
    "group policy set editors photos policy.json",
    "group policy show editors photos",
    "group policy delete editors photos",
    "group delete editors --dry-run",
    "role create backup --trust trust.json --max-session 2h",
    "role list --prefix back",
    "role info backup",
    "role set backup --max-session 4h",
    "role attach backup photos-read",
    "role detach backup photos-read",
    "role policy set backup photos policy.json",
    "role policy show backup photos",
    "role policy delete backup photos",
    "role delete backup --dry-run",
    "policy create photos-read policy.json",
    "policy list --prefix photos",
    "policy show photos-read",
    "policy set photos-read policy.json",
    "policy delete photos-read --dry-run",
    "identity-provider create https://login.example.org --client archipel",
    "identity-provider info login.example.org",
    "identity-provider change login.example.org --add-client app",
    "identity-provider delete login.example.org",
    "k2v insert notes inbox today hello",
    "k2v read notes inbox today",
    "k2v delete notes inbox today",
    "k2v poll notes inbox today --token TOKEN",
    "k2v index notes --prefix in",
    "access explain AKexample s3:GetObject photos/2026/beach.jpg",
    "token create monitoring --scope all:read --expires-in 90d",
    "token list --name monitoring",
    "token info ID",
    "token change ID --name grafana",
    "token revoke ID",
    "node join b.example.net:3901",
    "node list --zone paris",
    "node info 0badcafe",
    "node admit 0badcafe",
    "node dismiss 0badcafe",
    "layout assign 0badcafe --zone paris --capacity 500GiB",
    "layout remove 0badcafe",
    "layout redundancy --replicas 3 --zones 2",
    "layout apply --version 2 --revision 1 --wait",
    "layout remove-dead 0badcafe",
    "layout history --since 30d",
    "event targets --state failing",
    "certificate list --state ended",
    "lifecycle start --wait",
    "operation list --state running",
    "operation info scrub:0badcafe",
    "operation wait scrub:0badcafe",
    "operation cancel scrub:0badcafe",
    "audit --action PutObject --decision denied --last 20",
    "metric list --prefix archipel_disk",
    "top --interval 5",
    "scrub start --rate 20 --wait",
    "verify --deep",
    "repair blocks --rate 20",
    "block info HASH",
    "snapshot list --prefix snapshot-179",
    "snapshot restore NAME --config /etc/archipel/archipel.toml",
    "metadata convert sqlite --config /etc/archipel/archipel.toml",
    "completions bash > /etc/bash_completion.d/archipel",
    "man --dir /usr/local/share/man/man1",
];

/// Returns the definition of the command line. The help of commands ends with their examples.
pub fn definition() -> Command {
    let mut command = Cli::command();
    command.get_subcommands_mut().for_each(|sub| add(sub, ""));
    command
}

/// Adds the examples to a command and to all below it. `before` are the names of those above it, each
/// with a space.
fn add(command: &mut Command, before: &str) {
    let name = format!("{before}{} ", command.get_name());
    let own = EXAMPLES.iter().filter(|line| line.starts_with(&name));
    let own: Vec<String> = own.map(|line| format!("  archipel {line}")).collect();
    if command.has_subcommands() {
        command
            .get_subcommands_mut()
            .for_each(|sub| add(sub, &name));
    } else if !own.is_empty() {
        let text = format!("Example:\n{}", own.join("\n"));
        *command = std::mem::take(command).after_help(text);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::target::GLOBAL;
    use super::*;

    #[test]
    fn every_command_with_arguments_of_its_own_has_an_example() {
        fn look(command: &Command, before: &str) {
            let name = format!("{before}{}", command.get_name());
            for sub in command.get_subcommands() {
                look(sub, &format!("{name} "));
            }
            let common = ["help", "version", "config", "json", "quiet"];
            let is_own = |argument: &clap::Arg| {
                let is_common = common.contains(&argument.get_id().as_str());
                argument.get_help_heading() != Some(GLOBAL) && !is_common
            };
            if !command.has_subcommands() && command.get_arguments().any(is_own) {
                assert!(command.get_after_help().is_some(), "{name}");
            }
        }
        let command = definition();
        command.get_subcommands().for_each(|sub| look(sub, ""));
    }

    #[test]
    fn every_example_is_a_command_line() {
        for example in EXAMPLES {
            // The rest is for the shell.
            let words = example.split(' ').take_while(|word| *word != ">");
            let parsed = Cli::try_parse_from(["archipel"].into_iter().chain(words));
            if let Err(error) = parsed {
                panic!("{example}: {error}");
            }
        }
    }
}
