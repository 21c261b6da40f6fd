//! Budgets: named, charged, prepaid, recharged.

mod accounting;
mod attribute;
mod bypass;
mod forbids_unsafe;
mod named;
mod prepaid;
mod recharge;
mod slices;
