//! Operations on users, groups, roles, managed policies and identity providers; for whom access
//! keys act; sessions.

mod attach;
mod documents;
mod members;
mod named;
mod operations;
mod providers;
mod references;
mod resolve;
mod sessions;
#[cfg(test)]
mod tests;
