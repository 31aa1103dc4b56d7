//! The check of the limits.

use std::num::NonZeroU32;
use std::time::Duration;

use archipel_api::serve::{Network, ProxyHeader};
use archipel_model::{BUCKETS_PER_USER, CONTROL_LEASE};

use super::Check;
use crate::config::{Limits, file};

/// The bounds of the control data's lease.
const MIN_LEASE_SECONDS: u32 = 3;
const MAX_LEASE_SECONDS: u32 = 86_400;
const DAY_SECONDS: u32 = 86_400;

impl Check {
    pub(super) fn limits(&mut self, limits: &file::Limits) -> Limits {
        let connections = limits.connections.unwrap_or(2048);
        if connections == 0 {
            self.problem(
                "limits.connections",
                Some("0".into()),
                "no client could connect",
                "at least 1",
            );
        }
        let lease = limits
            .control_lease_seconds
            .unwrap_or(CONTROL_LEASE.as_secs() as u32);
        if !(MIN_LEASE_SECONDS..=MAX_LEASE_SECONDS).contains(&lease) {
            let why = "it is too short to be kept up, or too long to protect";
            let fix = "from 3 to 86400 seconds";
            self.problem(
                "limits.control_lease_seconds",
                Some(lease.to_string()),
                why,
                fix,
            );
        }
        let day = limits.lifecycle_day_seconds.unwrap_or(DAY_SECONDS);
        if !(1..=DAY_SECONDS).contains(&day) {
            self.problem(
                "limits.lifecycle_day_seconds",
                Some(day.to_string()),
                "it is no time, or longer than a day",
                "from 1 to 86400 seconds; 86400 outside tests",
            );
        }
        let connections_per_address = self.at_least_1(
            "limits.connections_per_address",
            limits.connections_per_address,
        );
        let requests_per_second_per_address = self.at_least_1(
            "limits.requests_per_second_per_address",
            limits.requests_per_second_per_address,
        );
        let requests_per_second_per_user = self.at_least_1(
            "limits.requests_per_second_per_user",
            limits.requests_per_second_per_user,
        );
        let (trusted_proxies, proxy_header) = self.proxies(limits);
        let buckets_per_user = self.at_least_1("limits.buckets_per_user", limits.buckets_per_user);
        let buckets_per_user = buckets_per_user.map_or(BUCKETS_PER_USER, |most| {
            usize::try_from(most.get()).unwrap_or(usize::MAX)
        });
        Limits {
            trusted_proxies,
            proxy_header,
            buckets_per_user,
            connections,
            connections_per_address: connections_per_address.map(NonZeroU32::get),
            requests_per_second_per_address,
            requests_per_second_per_user,
            control_lease: Duration::from_secs(lease.into()),
            lifecycle_day: Duration::from_secs(day.into()),
            shutdown_seconds: limits.shutdown_seconds.unwrap_or(30),
            scrub_days: limits.scrub_days.unwrap_or(30),
            disk_reserve_bytes: limits
                .disk_reserve
                .as_ref()
                .and_then(|reserve| self.size("limits.disk_reserve", reserve)),
        }
    }

    fn proxies(&mut self, limits: &file::Limits) -> (Vec<Network>, ProxyHeader) {
        let mut networks = Vec::new();
        for text in &limits.trusted_proxies {
            match text.parse() {
                Ok(network) => networks.push(network),
                Err(_) => {
                    let fix = "an address or a network, such as \"10.0.0.7\" or \"10.0.0.0/8\"";
                    let value = Some(text.clone());
                    self.problem("limits.trusted_proxies", value, "not a network", fix);
                }
            }
        }
        let header = match limits.proxy_header.as_deref() {
            None | Some("x-forwarded-for") => ProxyHeader::XForwardedFor,
            Some("forwarded") => ProxyHeader::Forwarded,
            Some(other) => {
                let (value, fix) = (Some(other.into()), "\"x-forwarded-for\" or \"forwarded\"");
                self.problem("limits.proxy_header", value, "unknown choice", fix);
                ProxyHeader::default()
            }
        };
        (networks, header)
    }

    fn at_least_1(&mut self, key: &'static str, value: Option<u32>) -> Option<NonZeroU32> {
        if value == Some(0) {
            let why = "no client would be served";
            self.problem(key, Some("0".into()), why, "at least 1");
        }
        NonZeroU32::new(value?)
    }
}
