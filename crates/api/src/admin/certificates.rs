//! Certificates from an authority.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use super::answer::{Json, Query, Refusal};
use super::page::page;
use super::types::{CertificateInfo, CertificateState, Page};

/// The filters of the list of certificates.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListCertificates {
    /// The most items in the answer: 1 to 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only domains after this one: the `next` of the former page.
    after: Option<String>,
    /// Only certificates in this state.
    state: Option<CertificateState>,
}

/// Lists the domains in `acme.domains` of the node that is asked, with the certificates that it uses
/// and the orders that failed. All nodes share certificates and orders.
#[utoipa::path(
    get, path = "/v1/certificates", tag = "certificates", operation_id = "list_certificates",
    params(ListCertificates),
    responses((status = 200, description = "Domains", body = Page<CertificateInfo>)),
)]
pub(super) async fn list(
    State(admin): State<Arc<Admin>>,
    Query(query): Query<ListCertificates>,
) -> Result<Json<Page<CertificateInfo>>, Refusal> {
    let mut all = admin.node.certificates();
    all.retain(|one| query.state.is_none_or(|state| one.state == state));
    let after = query.after.as_deref();
    page(all, |one| &one.domain, query.limit, after).map(Json)
}
