//! A file system on a loop device of its own, so that the counts of the device are those of the
//! server whose folder lies there.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;

/// The counts of a block device since it was made.
#[derive(Clone, Copy)]
pub struct Counts {
    /// Reads that reached the device.
    pub reads: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Flushes of the device's cache.
    pub flushes: u64,
}

impl Counts {
    /// Returns the difference from earlier counts.
    pub fn since(self, before: Counts) -> Counts {
        Counts {
            reads: self.reads - before.reads,
            bytes: self.bytes - before.bytes,
            flushes: self.flushes - before.flushes,
        }
    }
}

/// A file system on a loop device. It is removed when the value is dropped.
pub struct Volume {
    image: PathBuf,
    device: String,
    /// The folder where it is mounted.
    pub mount_point: PathBuf,
}

impl Volume {
    /// Makes and mounts a file system of this size. Its image lies in `folder` and takes as much
    /// room as is used. Needs root.
    pub fn make(folder: &Path, gib: u64) -> Outcome<Volume> {
        let image = folder.join(format!("bench-disk-{}.image", std::process::id()));
        std::fs::File::create(&image)?.set_len(gib << 30)?;
        let mount_point = image.with_extension("mounted");
        std::fs::create_dir_all(&mount_point)?;
        let mut volume = Volume {
            device: String::new(),
            image,
            mount_point,
        };
        let image = volume.image.display().to_string();
        // Nothing is written in the background, which would count.
        call(
            "mkfs.ext4",
            &[
                "-q",
                "-F",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0",
                &image,
            ],
        )?;
        volume.device = call("losetup", &["--find", "--show", &image])?;
        let mounted = volume.mount_point.display().to_string();
        call("mount", &[&volume.device, &mounted])?;
        Ok(volume)
    }

    /// Returns the number of the device, as the kernel writes it: `major:minor`.
    pub fn number(&self) -> Outcome<String> {
        let name = self.device.trim_start_matches("/dev/");
        let number = std::fs::read_to_string(format!("/sys/block/{name}/dev"))?;
        Ok(number.trim().to_owned())
    }

    /// Returns the counts of the device.
    pub fn counts(&self) -> Outcome<Counts> {
        let name = self.device.trim_start_matches("/dev/");
        let table = std::fs::read_to_string("/proc/diskstats")?;
        let line = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .find(|fields| fields.get(2) == Some(&name))
            .ok_or("the kernel has no counts of the loop device")?;
        // Documentation/admin-guide/iostats.rst of the kernel: fields 1, 7 and 16 after the name.
        let field = |at: usize| -> Outcome<u64> {
            Ok(line
                .get(at + 2)
                .ok_or("the kernel counts no flushes")?
                .parse()?)
        };
        Ok(Counts {
            reads: field(1)?,
            bytes: field(7)? * 512,
            flushes: field(16)?,
        })
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let mounted = self.mount_point.display().to_string();
        let ends: [(&str, &[&str]); 2] = [
            ("umount", &["-l", &mounted]),
            ("losetup", &["-d", &self.device]),
        ];
        for (program, arguments) in ends {
            if let Err(error) = call(program, arguments) {
                eprintln!("{error}");
            }
        }
        let _ = std::fs::remove_dir(&self.mount_point);
        let _ = std::fs::remove_file(&self.image);
    }
}

fn call(program: &str, arguments: &[&str]) -> Outcome<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} failed (it needs root): {text}").into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
