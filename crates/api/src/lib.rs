//! The doors: [`s3`] for users' clients, [`admin`] for operators. They do not know one another.
//! [`serve`] opens doors for users on listeners.

pub mod admin;
pub mod s3;
pub mod serve;
