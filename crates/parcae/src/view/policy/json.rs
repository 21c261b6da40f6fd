//! A policy as JSON, for the socket.

use super::desk::{PolicyEvent, PolicyStatus};
use super::view::{PolicyView, TenantView};
use crate::base::json::JsonObject;
use crate::sched::run_queue::DecidedBy;
use parcae_core::fair::Params;
use parcae_core::policy::{Hint, Source};

/// The name of a kind of work, in files and requests.
pub(crate) fn hint_name(hint: Hint) -> &'static str {
    match hint {
        Hint::Normal => "normal",
        Hint::LatencySensitive => "latency-sensitive",
        Hint::Batch => "batch",
        Hint::Driver => "driver",
        Hint::Poller => "poller",
        Hint::Agent => "agent",
    }
}

fn source_name(source: Source) -> &'static str {
    match source {
        Source::Fresh => "service",
        Source::LastGood => "last good",
        Source::BuiltIn => "built-in",
    }
}

fn decided_by(by: DecidedBy) -> &'static str {
    match by {
        DecidedBy::Program => "program",
        DecidedBy::Profile => "profile",
        DecidedBy::Service => "service",
        DecidedBy::Operator => "operator",
        DecidedBy::Floor => "floor",
    }
}

/// State, profiles, tenants.
pub(crate) fn shown(status: &PolicyStatus, view: &PolicyView) -> String {
    let mut out = String::new();
    let mut object = JsonObject::begin(&mut out);
    object.text("source", source_name(status.source)).plain("epoch", status.epoch);
    object.plain("held", status.held).text_if("service", status.service.as_deref());
    if let Some(silent) = status.silent {
        object.plain("silent_ms", silent.as_millis());
    }
    object.text("operator", &status.operator.0).plain("floor_permille", status.operator.1);
    object.plain("least_weight", status.weights.0.get());
    object.plain("greatest_weight", status.weights.1.get());
    object.plain("operator_rules", status.rules.0).plain("service_rules", status.rules.1);
    object.plain("refused", status.refused);
    object.plain("refused_contexts", status.refused_contexts);
    object.list("promised_permille", &view.promised, |out, part| out.push_str(&part.to_string()));
    object.list("profiles", Hint::ALL.into_iter().zip(&view.profiles), |out, (hint, params)| {
        let Params { weight, latency } = params;
        let mut profile = JsonObject::begin(out);
        profile.text("hint", hint_name(hint)).plain("weight", weight.get());
        profile.text("latency", &format!("{latency:?}").to_lowercase()).end();
    });
    object.list("tenants", &view.tenants, tenant);
    object.end();
    out
}

/// One tenant.
pub(crate) fn tenant(out: &mut String, tenant: &TenantView) {
    let mut object = JsonObject::begin(out);
    object.text_if("tenant", tenant.path.as_deref()).plain("number", tenant.number);
    object.plain("weight", tenant.weight).plain("slice", tenant.slice);
    object.text("by", decided_by(tenant.by));
    if let Some(weight) = tenant.asked {
        object.plain("asked_weight", weight.get());
    }
    object.text_if("hint", tenant.hint.map(hint_name));
    if let Some(suggestion) = tenant.suggestion {
        object.plain("suggested_priority", suggestion.priority);
        object.plain("suggested_deadline", suggestion.deadline);
    }
    object.plain("open", tenant.open).plain("queued", tenant.queued);
    object.plain("charged", tenant.charged);
    let shares = [("wanted", tenant.wanted), ("feasible", tenant.feasible), ("got", tenant.got)];
    for (name, share) in shares {
        object.plain(name, format_args!("{share:.4}"));
    }
    object.end();
}

/// The history, oldest first.
pub(crate) fn history(events: &[PolicyEvent]) -> String {
    let mut out = String::new();
    let mut object = JsonObject::begin(&mut out);
    object.list("history", events, |out, event| {
        let mut object = JsonObject::begin(out);
        object.plain("number", event.number);
        object.plain("at_ms", event.at.as_millis()).text("change", &event.change.to_string());
        object.text_if("service", event.service.as_deref()).plain("times", event.times).end();
    });
    object.end();
    out
}
