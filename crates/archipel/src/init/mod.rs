//! `archipel init`: asks a few questions and writes a configuration with new secrets.
//!
//! | module | what it holds |
//! |---|---|
//! | `questions` | the answers, from flags, from a person, or by default |
//! | `text` | the configuration as text |

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};
use serde::Serialize;

use crate::cli::init::InitArgs;
use crate::cli::table;
use crate::client::Failure;
use crate::config;

mod questions;
mod text;

use questions::Answers;

/// The files of the secrets, beside the configuration.
const CLUSTER_SECRET: &str = "cluster-secret";
const KEY_SECRET: &str = "first-secret-key";

/// The files that this run has made. They are removed again if it fails.
#[derive(Default)]
struct Made(Vec<PathBuf>);

/// The files that were written and the access key, as `--json` prints them.
#[derive(Serialize)]
struct Written {
    config: PathBuf,
    access_key: String,
    /// The file of the secret of the access key.
    key_file: PathBuf,
    /// The file of the secret of the cluster, if several nodes begin together.
    secret_file: Option<PathBuf>,
    /// The files of which no owner is known, because the data folder is missing.
    without_owner: Vec<PathBuf>,
}

/// Asks, and writes the files.
///
/// # Errors
/// A text for the operator. Then no file is left.
pub fn run(args: &InitArgs) -> Result<(), Failure> {
    let folder = folder_of(&args.config)?;
    if args.config.exists() {
        return Err(Failure::new(format!(
            "{} is there already, and is not overwritten; fix: move it away, or name another file with --config",
            args.config.display()
        )));
    }
    let answers = questions::ask(args)?;
    let mut made = Made::default();
    match write(args, &folder, &answers, &mut made) {
        Ok(written) if args.json => table::print_json(&written),
        Ok(written) => table::document(text::next_steps(args, &answers, &written).trim_end()),
        Err(failure) => {
            for path in &made.0 {
                // The first error is the one to tell.
                let _ = fs::remove_file(path);
            }
            Err(failure)
        }
    }
}

/// Returns the folder of the configuration as an absolute path. It is made if it is not there.
fn folder_of(config: &Path) -> Result<PathBuf, Failure> {
    let parent = config.parent().filter(|path| !path.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    made.map_err(|error| Failure::new(format!("the folder {}: {error}", folder.display())))
}

fn write(
    args: &InitArgs,
    folder: &Path,
    answers: &Answers,
    made: &mut Made,
) -> Result<Written, Failure> {
    let key_file = folder.join(KEY_SECRET);
    if key_file.exists() && args.access_key.is_none() {
        return Err(Failure::new(format!(
            "{} is there already; fix: name its access key with --access-key, or move the file away",
            key_file.display()
        )));
    }
    let key_file = secret(args, key_file, made)?;
    let secret_file = match &answers.together {
        Some(_) => Some(secret(args, folder.join(CLUSTER_SECRET), made)?),
        None => None,
    };
    let access_key = match &args.access_key {
        Some(id) => id.clone(),
        None => format!("AK{}", hex::encode_upper(random::<9>()?)),
    };
    let text = text::configuration(answers, &access_key, &key_file, secret_file.as_deref());
    create(&args.config, &text, made)?;
    config::load(&args.config, std::iter::empty())
        .map_err(|error| Failure::new(error.to_string()))?;
    // The secrets may be copies that root has put there.
    let files: Vec<&Path> = [&*args.config, &*key_file]
        .into_iter()
        .chain(secret_file.as_deref())
        .collect();
    let owner = fs::metadata(&answers.data_dir).ok();
    let is_root = fs::metadata(&args.config).is_ok_and(|file| file.uid() == 0);
    if let Some(owner) = owner.as_ref().filter(|_| is_root) {
        for path in &files {
            give(path, owner)?;
        }
    }
    let without_owner = match is_root && owner.is_none() {
        true => files.iter().map(|path| path.to_path_buf()).collect(),
        false => Vec::new(),
    };
    Ok(Written {
        config: args.config.clone(),
        access_key,
        key_file,
        secret_file,
        without_owner,
    })
}

/// Returns the file of a secret: one that is there, or a new one.
fn secret(args: &InitArgs, path: PathBuf, made: &mut Made) -> Result<PathBuf, Failure> {
    if path.exists() {
        return Ok(path);
    }
    if args.access_key.is_some() {
        return Err(Failure::new(format!(
            "{} is missing; fix: copy it from the first machine (mode 600): all nodes have the same secrets",
            path.display()
        )));
    }
    create(&path, &format!("{}\n", hex::encode(random::<24>()?)), made)?;
    Ok(path)
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Failure::new("the operating system provides no randomness".into()))?;
    Ok(bytes)
}

/// Makes a file that only its owner can read. A file that is there is an error.
fn create(path: &Path, text: &str, made: &mut Made) -> Result<(), Failure> {
    let cannot =
        |error: io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    let mut file = opened.map_err(cannot)?;
    made.0.push(path.to_owned());
    file.write_all(text.as_bytes()).map_err(cannot)?;
    file.sync_all().map_err(cannot)
}

/// Gives a file to the owner of the data folder, so that the server can read what root has made.
fn give(path: &Path, owner: &Metadata) -> Result<(), Failure> {
    let cannot =
        |error: io::Error| Failure::new(format!("the owner of {}: {error}", path.display()));
    let is_of_root = |file: &Metadata| file.uid() == 0;
    if !is_of_root(&fs::metadata(path).map_err(cannot)?) || is_of_root(owner) {
        return Ok(());
    }
    // The folder may belong to that owner, who must not get another file of root by a link to it.
    let mut options = OpenOptions::new();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let opened = options.read(true).custom_flags(flags).open(path);
    let is_link = || {
        Failure::new(format!(
            "{} is a link, or no file, and is not given to the owner of the data; fix: put a copy there",
            path.display()
        ))
    };
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => is_link(),
        _ => cannot(error),
    })?;
    let opened = file.metadata().map_err(cannot)?;
    if !opened.is_file() || opened.nlink() != 1 {
        return Err(is_link());
    }
    match is_of_root(&opened) {
        true => fchown(&file, Some(owner.uid()), Some(owner.gid())).map_err(cannot),
        false => Ok(()),
    }
}
