//! A run as one JSON document.

use crate::Run;
use crate::WORKLOADS;
use crate::case::{Better, Peer, Variant, Workload};
use crate::noise::Noise;
use crate::runner::Figure;
use crate::targets::{Limit, Verdict};
use serde_json::{Map, Value, json};

/// Conditions, figures with the numbers of every round, targets, failures.
pub fn document(run: &Run) -> Value {
    let conditions: Map<String, Value> = run
        .conditions
        .lines()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Value::String(value)))
        .collect();
    let failures = run
        .failures
        .iter()
        .map(|(case, failure)| json!({ "case": case.to_string(), "failure": failure.to_string() }));
    json!({
        "conditions": conditions,
        "noise": {
            "spin": run.noise.spin,
            "steal": run.noise.steal,
            "others": run.noise.others,
            "trusted": run.noise.is_quiet(),
            "reasons": run.noise.reasons(),
        },
        "rounds": run.rounds,
        "figures": run.figures.iter().map(|figure| entry(figure, &run.figures)).collect::<Vec<_>>(),
        "targets": run.verdicts.iter().map(|verdict| target(verdict, &run.noise)).collect::<Vec<_>>(),
        "failures": failures.collect::<Vec<_>>(),
    })
}

/// The list of workloads.
pub fn list() -> Value {
    let variant = |workload: &Workload, variant: &Variant| {
        json!({
            "workload": workload.name,
            "variant": variant.name,
            "about": variant.about,
            "unit": variant.unit,
            "better": better(variant.better),
            "peers": variant.sides.iter().map(|side| side.peer.name()).collect::<Vec<_>>(),
        })
    };
    let all = WORKLOADS.iter().flat_map(|w| w.variants.iter().map(move |v| variant(w, v)));
    json!({ "variants": all.collect::<Vec<_>>() })
}

fn better(better: Better) -> &'static str {
    match better {
        Better::Lower => "lower",
        Better::Higher => "higher",
    }
}

fn entry(figure: &Figure, all: &[Figure]) -> Value {
    let case = &figure.case;
    let base = all
        .iter()
        .find(|other| super::same_variant(other, figure) && other.case.side.peer == Peer::Parcae);
    let ratio =
        base.map(Figure::median).filter(|&base| base > 0.0).map(|base| figure.median() / base);
    json!({
        "workload": case.workload.name,
        "variant": case.variant.name,
        "peer": case.side.peer.name(),
        "version": case.side.peer.version(),
        "unit": case.variant.unit,
        "better": better(case.variant.better),
        "median": figure.median(),
        "ratio_to_parcae": ratio,
        "spread": figure.spread(),
        "samples": figure.samples(),
    })
}

/// A target. After a noisy run neither passed nor failed.
fn target(verdict: &Verdict, noise: &Noise) -> Value {
    json!({
        "workload": verdict.target.workload,
        "variant": verdict.target.variant,
        "kind": verdict.target.kind.to_string(),
        "limit": verdict.limit,
        "limit_of": match verdict.target.limit {
            Limit::Number(_) => None,
            Limit::Of(peer) => Some(peer.name()),
        },
        "value": verdict.value,
        "pass": noise.is_quiet().then(|| verdict.holds()),
    })
}
