//! Looks at one version of an object.

use std::sync::Arc;

use archipel_base::boxed;
use archipel_storage::engine::Durability;
use archipel_storage::{RowKey, VersionName};

use super::{Look, TRIES};
use crate::data::Data;
use crate::data::options::WriteOptions;
use crate::data::rows::{start, unexpected};
use crate::error::Error;
use crate::node::wire::About;
use crate::register::versions::{Promises, VersionReport};
use crate::register::{self, Operation, Outcome};

impl Data {
    /// Returns a version of an object with its payload; `None` if there is none of that name. One
    /// round; two more if failures left open whether the version exists.
    #[boxed]
    pub async fn version_of(
        self: &Arc<Data>,
        row: &RowKey,
        name: VersionName,
    ) -> Result<Option<VersionReport>, Error> {
        let how = WriteOptions::durable(Durability::Fsync);
        for _ in 0..TRIES {
            let Look { report, is_final } = self.look(row, name, &how).await?;
            if is_final {
                return Ok(report.value.is_some().then_some(report));
            }
            self.settle_version(row, report, false).await?;
        }
        Err(Error::Unavailable("a version cannot be settled now".into()))
    }

    /// Looks at a version of an object, in one round.
    pub(in crate::data) async fn look(
        self: &Arc<Data>,
        row: &RowKey,
        name: VersionName,
        how: &WriteOptions<'_>,
    ) -> Result<Look, Error> {
        let mut run = self.run(row, how)?;
        run.about = Some(About {
            names: vec![name],
            ..About::default()
        });
        let (operation, outputs) = Operation::look(start(&run.group), name);
        let mut never = |_: &Promises<'_>| register::Decision::Keep;
        let (report, is_final) = match run.drive(operation, outputs, &mut never).await? {
            Outcome::Seen(report) => (report, true),
            Outcome::Open(report) => (report, false),
            other => return Err(unexpected(&other)),
        };
        Ok(Look { report, is_final })
    }
}
