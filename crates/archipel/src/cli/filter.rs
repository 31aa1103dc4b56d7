//! Filters that several lists have.

use clap::Args;

use crate::client::query;

/// A filter by the beginning of names.
#[derive(Args)]
pub struct Prefix {
    /// List only entries whose name begins with this
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
}

impl Prefix {
    /// Returns the address of the list at `route`, filtered.
    pub fn of(&self, route: &str) -> String {
        query(route, &[("prefix", self.prefix.as_deref())])
    }
}

/// A filter by a part of names for people.
#[derive(Args)]
pub struct Named {
    /// List only entries whose name for people contains this
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
}

impl Named {
    /// Returns the address of the list at `route`, filtered.
    pub fn of(&self, route: &str) -> String {
        query(route, &[("name", self.name.as_deref())])
    }
}

/// Returns a truth value in the form that queries have.
pub fn truth(value: Option<bool>) -> Option<&'static str> {
    value.map(|is_true| if is_true { "true" } else { "false" })
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use archipel_api::admin::types::{
        CertificateState, EventTargetState, NodeState, OperationKind, OperationState,
    };
    use clap::CommandFactory;
    use serde::de::DeserializeOwned;

    use super::super::Cli;

    /// Returns the values of an option that its help lists.
    fn offered(command: [&str; 2], option: &str) -> Vec<String> {
        let cli = Cli::command();
        let found = command.iter().fold(&cli, |within, name| {
            within.find_subcommand(name).expect("a command")
        });
        let mut options = found.get_arguments();
        let option = options
            .find(|one| one.get_id() == option)
            .expect("an option");
        let values = option.get_possible_values();
        let mut names: Vec<String> = values.iter().map(|one| one.get_name().into()).collect();
        names.sort();
        names
    }

    /// Returns the names that the API takes: the error about another one lists them.
    fn taken<T: DeserializeOwned + Debug>() -> Vec<String> {
        let refused = serde_json::from_value::<T>("?".into());
        let refused = refused.expect_err("no such name").to_string();
        let names = refused.split('`').skip(3).step_by(2);
        let mut names: Vec<String> = names.map(String::from).collect();
        names.sort();
        names
    }

    #[test]
    fn filters_offer_the_states_and_kinds_of_the_api() {
        let states = |command| offered(command, "state");
        assert_eq!(states(["node", "list"]), taken::<NodeState>());
        assert_eq!(states(["operation", "list"]), taken::<OperationState>());
        assert_eq!(states(["event", "targets"]), taken::<EventTargetState>());
        assert_eq!(states(["certificate", "list"]), taken::<CertificateState>());
        let kinds = offered(["operation", "list"], "kind");
        assert_eq!(kinds, taken::<OperationKind>());
        assert!(kinds.contains(&"layout-change".to_owned()), "{kinds:?}");
    }
}
