//! The program `archipel`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    archipel::main()
}
