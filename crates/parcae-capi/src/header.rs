//! The header, printed from the declarations.

use crate::api::SECTIONS;
use crate::decl::{Function, Returns, Structure};
use crate::types::{CONSTANTS, OPAQUE, STRUCTURES};
use std::ffi::CStr;
use std::fmt::Write;

/// Major, minor and patch of the library, two decimal digits each.
pub const VERSION: i32 = 100; // 0.1.0
/// The same as a text.
pub const VERSION_TEXT: &CStr = c"0.1.0";

const HEAD: &str = "\
/* Parcae: tasks that run on budgets, in nurseries. The manual is docs/c.md.
 *
 * Printed by `cargo run -p parcae-capi --bin parcae-header`: change the Rust sources, not this file.
 *
 * Handles look like pointers and are numbers: they are looked up, never dereferenced. An object may be
 * used only by the task or thread that created it, unless its documentation says otherwise. Functions of
 * type parcae_status return PARCAE_OK or a negative code; others return -1, NULL or as documented.
 * parcae_last_error has a text for each failure.
 */
#ifndef PARCAE_H
#define PARCAE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

/* A compile-time assertion, in C99 and in C++. */
#define PARCAE_ASSERT(name, condition) typedef char parcae_assert_##name[(condition) ? 1 : -1]

#if defined(__GNUC__)
#define PARCAE_NORETURN __attribute__((noreturn))
#else
#define PARCAE_NORETURN
#endif
";

const TYPES: &str = "
/* The function of a task: returns 0 or more for success, less for failure. */
typedef int64_t (*janus_task_fn)(void *arg);
typedef int64_t (*janus_noarg_task_fn)(void);
typedef int32_t (*parcae_task_fn_i32)(void *arg);
typedef int32_t (*parcae_noarg_task_fn_i32)(void);
/* The callback of a token, for its cancellation. */
typedef void (*parcae_cancel_fn)(void *arg, int32_t reason);
/* The callback for stall reports. */
struct parcae_stall;
typedef void (*parcae_stall_fn)(void *arg, const struct parcae_stall *stall);
/* The functions of an actor, and of a supervisor: see parcae_actor_opts. */
struct parcae_address;
struct parcae_birth;
struct parcae_children;
struct parcae_event;
struct parcae_exit;
struct parcae_message;
struct parcae_reply;
typedef int64_t (*parcae_actor_start_fn)(void *arg, const struct parcae_birth *birth, void **state);
typedef int64_t (*parcae_actor_handle_fn)(void *state, struct parcae_message *message,
                                          struct parcae_reply *reply);
typedef int64_t (*parcae_actor_event_fn)(void *state, const struct parcae_event *event);
typedef void (*parcae_actor_stop_fn)(void *state, const struct parcae_exit *exit);
typedef int64_t (*parcae_children_fn)(void *arg, struct parcae_children *children);
typedef void (*parcae_drop_fn)(void *data);
/* PARCAE_OK, PARCAE_CANCELLED and so on. */
typedef int32_t parcae_status;
/* A component of a budget that is not counted. */
#define PARCAE_UNLIMITED UINT64_MAX
";

const SHORT_NAMES: &str = "
/* The short names of the specification. */
#ifndef PARCAE_NO_SHORT_NAMES
typedef janus_task_fn TaskFn;
typedef janus_noarg_task_fn NoArgTaskFn;
typedef janus_budget Budget;
typedef janus_runtime_config RuntimeConfig;
typedef janus_scheduler_config SchedulerConfig;
typedef janus_runtime Runtime;
typedef janus_cancel_token CancelToken;
#endif
";

const INLINE: &str = "
/* ----- Yield checks -----------------------------------------------------------------------------
 *
 * A yield check charges one op. meter is the result of parcae_meter_get(); call that once per task and keep it: it
 * stays valid when the task continues on another thread. Generated code may do the same without this function:
 * if slice > (*limit | *signal), subtract one from slice and continue; otherwise call parcae_yield_slow().
 * Read limit and signal anew each time. Returns PARCAE_OK, or why the task has to end.
 */
static inline parcae_status parcae_yield_check(parcae_meter *meter)
{
    uint64_t raised = *(const volatile uint64_t *)meter->limit | *(const volatile uint32_t *)meter->signal;
    if (meter->slice > raised) {
        meter->slice -= 1;
        return PARCAE_OK;
    }
    return parcae_yield_slow();
}
";

const TAIL: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

/// Prints the header.
pub fn header() -> String {
    let mut out = String::from(HEAD);
    let (major, minor, patch) = (VERSION / 10_000, VERSION / 100 % 100, VERSION % 100);
    let _ = write!(
        out,
        "\n/* The version of this header: {major}.{minor}.{patch}. */\n#define PARCAE_VERSION {VERSION}\n"
    );
    for (what, constants) in CONSTANTS {
        let _ = write!(out, "\n/*{what} */\nenum {{\n");
        for (name, value) in *constants {
            let _ = writeln!(out, "    {name} = {value},");
        }
        // C99 has the comma; so has C++11.
        out.push_str("};\n");
    }
    out.push_str("\n/* The frozen table of results. */\n");
    for (name, value) in
        [("OK", 0), ("CANCELLED", -1), ("PANIC", -2), ("BUDGET", -3), ("PENDING", -4)]
    {
        let low = name.to_lowercase();
        let _ = writeln!(out, "PARCAE_ASSERT(code_{low}, PARCAE_{name} == {value});");
    }
    out.push_str(TYPES);
    out.push('\n');
    for name in OPAQUE {
        let _ = writeln!(out, "typedef struct {name} {name};");
    }
    STRUCTURES.iter().for_each(|structure| print_structure(&mut out, structure));
    out.push_str(SHORT_NAMES);
    for (title, intro, lists) in SECTIONS {
        let rule = "-".repeat(90_usize.saturating_sub(title.len()));
        let _ = write!(out, "\n/* ----- {title} {rule} */\n");
        if !intro.is_empty() {
            let _ = write!(out, "\n/* {intro} */\n");
        }
        for function in lists.iter().flat_map(|list| list.iter()) {
            print_function(&mut out, function);
        }
    }
    out.push_str(INLINE);
    out.push_str(TAIL);
    out
}

fn print_docs(out: &mut String, indent: &str, docs: &[&str]) {
    for (line, text) in docs.iter().enumerate() {
        let (open, close) =
            (if line == 0 { "/*" } else { " *" }, if line + 1 == docs.len() { " */" } else { "" });
        let _ = writeln!(out, "{indent}{open}{text}{close}");
    }
}

/// A type and a name, as C writes them.
fn typed(kind: &str, name: &str) -> String {
    if kind.ends_with('*') { format!("{kind}{name}") } else { format!("{kind} {name}") }
}

fn print_structure(out: &mut String, structure: &Structure) {
    let name = structure.name;
    out.push('\n');
    print_docs(out, "", structure.docs);
    let _ = writeln!(out, "typedef struct {name} {{");
    for field in structure.fields {
        print_docs(out, "    ", field.docs);
        let _ = writeln!(out, "    {};", typed(field.kind, field.name));
    }
    let _ = writeln!(out, "}} {name};");
    let _ = writeln!(out, "PARCAE_ASSERT({name}, sizeof({name}) == {});", structure.size);
    for field in structure.fields {
        let _ = writeln!(
            out,
            "PARCAE_ASSERT({name}_{field}, offsetof({name}, {field}) == {});",
            field.offset,
            field = field.name
        );
    }
}

fn print_function(out: &mut String, function: &Function) {
    out.push('\n');
    print_docs(out, "", function.docs);
    if function.returns == Returns::Never {
        out.push_str("PARCAE_NORETURN ");
    }
    let params: Vec<String> =
        function.params.iter().map(|(name, kind)| typed(kind, name)).collect();
    let params = if params.is_empty() { "void".to_owned() } else { params.join(", ") };
    let _ = writeln!(out, "{};", typed(function.result, &format!("{}({params})", function.name)));
}
