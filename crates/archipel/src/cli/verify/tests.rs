//! Tests of the result of a verification.

use std::process::ExitCode;

use archipel_api::admin::types::{VerifyInfo, VerifyNode};

use super::{UNCHECKED, code, exit, verdict};
use crate::client::Failure;

fn info(problems: u64, away: bool) -> VerifyInfo {
    let node = VerifyNode {
        short: "0badcafe".into(),
        problems,
        away: away.then(|| "it does not answer".into()),
        ..VerifyNode::default()
    };
    VerifyInfo {
        nodes: vec![node],
        ..VerifyInfo::default()
    }
}

#[test]
fn exit_status_distinguishes_problems_from_unchecked_parts() {
    assert_eq!(code(&info(0, false)), 0);
    assert_eq!(code(&info(2, false)), 1);
    assert_eq!(code(&info(2, true)), 1, "problems outweigh unchecked parts");
    assert_eq!(code(&info(0, true)), UNCHECKED);
    let moving = VerifyInfo {
        moving: true,
        ..info(0, false)
    };
    assert_eq!(code(&moving), UNCHECKED);
    let stopped = VerifyInfo {
        stopped: true,
        ..info(0, false)
    };
    assert_eq!(code(&stopped), UNCHECKED);
    assert!(verdict(&stopped).contains("was stopped"));
    assert!(verdict(&info(0, false)).starts_with("no problems:"));
    assert!(verdict(&moving).contains("1 check could not be done"));
    assert!(verdict(&info(2, false)).starts_with("found 2 problems;"));
}

#[test]
fn ctrl_c_has_its_own_exit_status() {
    let status = |failure| format!("{:?}", exit(Err(failure)));
    let of = |status: u8| format!("{:?}", ExitCode::from(status));
    assert_eq!(status(Failure::interrupted("it goes on")), of(130));
    assert_eq!(status(Failure::new("no server".into())), of(UNCHECKED));
}
