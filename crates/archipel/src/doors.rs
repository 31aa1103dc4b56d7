//! The S3 door, made from settings.

use archipel_model::Model;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::config::Settings;

/// PLACEHOLDER until api::s3::serve is there.
pub struct S3Door;

pub fn s3(_settings: &Settings, _model: &Model, _registry: &mut Registry) -> S3Door {
    S3Door
}

impl S3Door {
    pub async fn serve(self, _listener: TcpListener, mut stop: watch::Receiver<bool>) {
        let _ = stop.wait_for(|stop| *stop).await;
    }
}
