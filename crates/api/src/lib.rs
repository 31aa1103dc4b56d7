//! The doors: [`s3`] for users' clients, [`web`] for the visitors of websites, [`admin`] for
//! operators. `web` answers with the parts of `s3` that read objects; else they do not know one
//! another.
//! [`serve`] opens doors for users on listeners.

pub mod admin;
pub mod s3;
pub mod serve;
pub mod web;
