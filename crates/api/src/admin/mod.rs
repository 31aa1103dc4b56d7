//! The admin API.
