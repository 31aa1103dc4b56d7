//! The doors: [`s3`] for users' clients, [`admin`] for operators. They do not know one another.

pub mod admin;
pub mod s3;
