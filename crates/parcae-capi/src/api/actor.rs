//! Systems of actors, and supervisors.

use crate::actors::{ActorInC, AddressRef, Functions, Letter, Place, SystemRef, name_children};
use crate::api::nursery::Argument;
use crate::boundary::{sized, text};
use crate::caller::{self, Accounts};
use crate::decl::{Int, Long, c_api};
use crate::fault::Fault;
use crate::global::{self, Global, waiting};
use crate::objects::find;
use crate::types::*;
use parcae::Error;
use parcae::channel::{OneReceiver, oneshot};
use parcae::foreign;
use parcae::profile::{Cluster, ProfileId};
use parcae_actor as actor;
use parcae_actor::Actors as _;
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

/// A time in nanoseconds, or the default for 0.
fn time_or(given: u64, default: Duration) -> Duration {
    if given == 0 { default } else { Duration::from_nanos(given) }
}

/// The options of a supervisor, and its name.
///
/// # Safety
///
/// NULL, or options as the header says.
unsafe fn supervise_opts(
    given: *const SuperviseOpts,
) -> Result<(Arc<str>, actor::Supervise), Fault> {
    // SAFETY: the caller's.
    let Some(given) = (unsafe { sized(given)? }) else {
        return Ok(("".into(), actor::Supervise::one_for_one()));
    };
    let mut opts = match given.strategy {
        ONE_FOR_ONE => actor::Supervise::one_for_one(),
        ONE_FOR_ALL => actor::Supervise::one_for_all(),
        REST_FOR_ONE => actor::Supervise::rest_for_one(),
        other => return Err(Fault::argument(format!("strategy {other} is unknown"))),
    };
    if (given.restarts, given.period_ns) != (0, 0) {
        opts = opts.restarts(given.restarts, time_or(given.period_ns, Duration::from_secs(30)));
    }
    if given.backoff_least_ns > 0 {
        let (least, most) = (given.backoff_least_ns, given.backoff_most_ns);
        let (least, most) = (Duration::from_nanos(least), Duration::from_nanos(most));
        opts = opts.backoff(actor::Backoff::exponential(least, most));
    }
    if given.allowance > 0 {
        opts = opts.allowance(given.allowance);
    }
    opts = match given.end {
        END_NEVER => opts,
        END_WITH_ANY => opts.end_with_any(),
        END_WITH_ALL => opts.end_with_all(),
        other => return Err(Fault::argument(format!("end {other} is unknown"))),
    };
    if given.at_most > 0 {
        opts = opts.at_most(given.at_most);
    }
    if given.shards > 0 {
        opts = opts.shards(given.shards as usize);
    }
    if !given.recharge.is_null() {
        let cap = find!(given.recharge, CapBudget);
        // SAFETY: the caller's.
        let Some(&slice) = (unsafe { given.recharge_slice.as_ref() }) else {
            return Err(Fault::new(E_NULL, "a capability to recharge needs a recharge_slice"));
        };
        opts = opts.recharge(match given.recharge_period_ns {
            0 => actor::Recharge::slice(cap, slice.into()),
            period => actor::Recharge::every(cap, Duration::from_nanos(period), slice.into()),
        });
    }
    // SAFETY: the caller's.
    let name = unsafe { text(given.name) }.unwrap_or_default();
    Ok((name.into(), opts))
}

/// The options and functions of an actor.
///
/// # Safety
///
/// Options as the header says.
unsafe fn actor_opts(
    given: *const ActorOpts,
    home: usize,
) -> Result<(actor::ActorOpts, Functions), Fault> {
    // SAFETY: the caller's.
    let Some(given) = (unsafe { sized(given)? }) else {
        return Err(Fault::new(E_NULL, "a parcae_actor_opts is required, not NULL"));
    };
    let Some(handle) = given.handle else {
        return Err(Fault::new(E_NULL, "parcae_actor_opts.handle is required, not NULL"));
    };
    let mailbox = actor::Mailbox::bounded(match given.capacity {
        0 => 64,
        some => some as usize,
    });
    let mailbox = match given.mailbox {
        MAILBOX_BLOCK => mailbox,
        MAILBOX_REFUSE => mailbox.refuse(),
        MAILBOX_DROP_OLDEST => mailbox.drop_oldest(),
        MAILBOX_DROP_NEWEST => mailbox.drop_newest(),
        MAILBOX_LATEST => mailbox.latest_by_key(),
        MAILBOX_RENDEZVOUS => actor::Mailbox::rendezvous(),
        other => return Err(Fault::argument(format!("mailbox {other} is unknown"))),
    };
    let mut child = match given.restart {
        TRANSIENT => actor::Child::transient(),
        PERMANENT => actor::Child::permanent(),
        TEMPORARY => actor::Child::temporary(),
        other => return Err(Fault::argument(format!("restart {other} is unknown"))),
    };
    if given.significant != 0 {
        child = child.significant();
    }
    if given.stop_within_ns > 0 {
        child = child.stop_within(Duration::from_nanos(given.stop_within_ns));
    }
    if given.start_within_ns > 0 {
        child = child.start_within(Duration::from_nanos(given.start_within_ns));
    }
    // SAFETY: the caller's.
    let name = unsafe { text(given.name) }.unwrap_or_default();
    let mut opts = actor::ActorOpts::new(name).mailbox(mailbox).child(child);
    // SAFETY: the caller's.
    if let Some(&budget) = unsafe { given.budget.as_ref() } {
        opts = opts.budget(budget.into());
    }
    if given.message_ops > 0 {
        opts = opts.message_ops(given.message_ops, actor::Overrun::Fail);
    }
    let ActorOpts { start, event, stop, drop, arg, .. } = given;
    Ok((opts, Functions { start, handle, event, stop, drop, arg, home }))
}

type Factory = Box<dyn FnMut(&mut actor::Birth) -> parcae::Result<ActorInC> + Send>;

fn factory(functions: Functions) -> Factory {
    Box::new(move |birth| Ok(ActorInC::new(functions, birth)))
}

/// A callback that names children, as a supervisor calls it.
fn naming(
    home: usize,
    call: ChildrenFn,
    arg: *mut c_void,
) -> Result<impl FnMut(&mut actor::Children<'static>) -> parcae::Result<()> + Send + 'static, Fault>
{
    let call =
        call.ok_or_else(|| Fault::new(E_NULL, "a parcae_children_fn is required, not NULL"))?;
    let arg = Argument::new(arg);
    Ok(move |children: &mut actor::Children<'static>| {
        // SAFETY: the function that the program named, with its argument.
        name_children(home, children, |handle| unsafe { call(arg.get(), handle) })
    })
}

/// Opens a nursery with a task that has the system open. Returns the nursery's handle, the system
/// and the way to hear that it is there.
fn open(
    global: &Global,
    opts: actor::ActorsOpts,
    name: Option<String>,
) -> Result<(Arc<SystemRef>, OneReceiver<actor::System<'static>>), Fault> {
    if global.profile != ProfileId::Cluster {
        let text = "actors need the cluster profile: start the runtime with PARCAE_CLUSTER in \
                    parcae_config.profile";
        return Err(Fault::new(E_PROFILE, text));
    }
    let mut nursery = parcae::NurseryOpts::new();
    if let Some(name) = name {
        nursery = nursery.name(name);
    }
    caller::current(|caller| {
        let handle = caller.open(global, nursery, Accounts::Shared)?;
        let system = SystemRef::new(global.handle, handle.addr());
        let (sender, receiver) = oneshot();
        let started = caller.with_nursery(handle, |nursery| {
            nursery.system = Some(Arc::clone(&system));
            let system = Arc::clone(&system);
            // SAFETY: the handle is dropped here.
            let task = unsafe {
                nursery.rt.nursery.spawn(None, move |cx| {
                    let cx = foreign::under::<Cluster>(cx); // as checked above
                    cx.actors(opts, |actors| {
                        let _ = sender.send(actors.clone());
                        system.closing.wait()
                    })?;
                    Ok(0)
                })
            };
            drop(task?);
            Ok(())
        });
        match started {
            Ok(()) => Ok((system, receiver)),
            Err(fault) => {
                let _ = caller.close(handle);
                Err(fault)
            }
        }
    })
}

c_api! {
    /// Opens a system of actors, in a nursery of its own, which is the caller's innermost until
    /// parcae_actors_close. opts may be NULL. NULL on failure.
    fn parcae_actors_open(opts: *const ActorsOpts) -> *mut Actors {
        let (mut settings, mut name) = (actor::ActorsOpts::new(), None);
        // SAFETY: the caller's.
        if let Some(given) = unsafe { sized(opts)? } {
            // SAFETY: the caller's.
            name = unsafe { text(given.name) };
            if let Some(name) = &name {
                settings = settings.name(name.as_str());
            }
            // SAFETY: the caller's.
            if let Some(&budget) = unsafe { given.budget.as_ref() } {
                settings = settings.budget(budget.into());
            }
            if given.restarts > 0 {
                settings = settings.restarts(given.restarts);
            }
            if given.dead_letters > 0 {
                settings = settings.dead_letters(given.dead_letters);
            }
            // SAFETY: the caller's.
            settings = settings.supervise(unsafe { supervise_opts(given.root)? }.1);
        }
        let (system, opened) =
            global::with_running(|global| open(global, settings.clone(), name.clone()))?;
        let nursery = std::ptr::without_provenance_mut(system.nursery);
        let put = match waiting(move || opened.recv())? {
            Ok(actors) => system.put(Place::System(actors)),
            Err(error) => Err(Error::from(error).into()),
        };
        if put.is_err() {
            caller::current(|caller| caller.close(nursery))?;
        }
        put
    }

    /// Stops the actors of a system, in the reverse order of their start, and waits until all have
    /// ended. The system has to be the caller's innermost nursery, which this closes; so does
    /// janus_nursery_await_all. The result is that of a nursery: less than 0 if a supervisor has
    /// given up.
    fn parcae_actors_close(actors: *mut Actors) -> Long {
        let system = Arc::clone(&find!(actors, Actors).system);
        let nursery = std::ptr::without_provenance_mut(system.nursery);
        Ok(Long(caller::current(|caller| caller.close(nursery))?.code))
    }

    /// Starts an actor in a system or under a dynamic supervisor, and waits until it has started.
    /// The address is valid until parcae_address_free. NULL on failure.
    fn parcae_actor_start(actors: *mut Actors, opts: *const ActorOpts) -> *mut Address {
        let actors = find!(actors, Actors);
        // SAFETY: the caller's.
        let (opts, functions) = unsafe { actor_opts(opts, actors.system.home)? };
        let factory = factory(functions);
        let address = waiting(|| match &actors.place {
            Place::System(system) => system.start(opts, factory),
            Place::Dynamic(dynamic) => dynamic.start(opts, factory),
        })??;
        AddressRef::put(address)
    }

    /// Starts a supervisor whose children are started while it runs, by parcae_actor_start. The
    /// handle is valid until the system is closed. NULL on failure.
    fn parcae_actors_dynamic(actors: *mut Actors, opts: *const SuperviseOpts) -> *mut Actors {
        let actors = find!(actors, Actors);
        // SAFETY: the caller's.
        let (name, spec) = unsafe { supervise_opts(opts)? };
        let Place::System(system) = &actors.place else { return Err(no_system()) };
        let dynamic = waiting(|| system.dynamic(name, spec))??;
        actors.system.put(Place::Dynamic(dynamic))
    }

    /// Starts a supervisor with children, and waits until all have started. The callback names
    /// them, in the order of their start; it is called again when the supervisor is restarted, and
    /// a negative code of it is a failed start. 0 or -1.
    fn parcae_actors_supervise(
        actors: *mut Actors,
        opts: *const SuperviseOpts,
        children: ChildrenFn,
        arg: *mut c_void,
    ) -> Int {
        let actors = find!(actors, Actors);
        // SAFETY: the caller's.
        let (name, spec) = unsafe { supervise_opts(opts)? };
        let Place::System(system) = &actors.place else { return Err(no_system()) };
        let children = naming(actors.system.home, children, arg)?;
        waiting(|| system.supervise(name, spec, children))??;
        Ok(Int(0))
    }

    /// In the callback of parcae_actors_supervise: adds an actor. NULL on failure.
    fn parcae_children_actor(children: *mut Children, opts: *const ActorOpts) -> *mut Address {
        let children = find!(children, Children);
        // SAFETY: the caller's.
        let (opts, functions) = unsafe { actor_opts(opts, children.home)? };
        AddressRef::put(children.add(|children| children.actor(opts, factory(functions)))?)
    }

    /// In the same callback: adds a supervisor with children of its own. 0 or -1.
    fn parcae_children_supervisor(
        children: *mut Children,
        opts: *const SuperviseOpts,
        below: ChildrenFn,
        arg: *mut c_void,
    ) -> Int {
        let children = find!(children, Children);
        // SAFETY: the caller's.
        let (name, spec) = unsafe { supervise_opts(opts)? };
        let below = naming(children.home, below, arg)?;
        children.add(|children| children.supervisor(name, spec, below))?;
        Ok(Int(0))
    }

    /// The actor with this name, with an address of its own for parcae_address_free. NULL if there
    /// is none.
    fn parcae_actor_find(actors: *mut Actors, name: *const c_char) -> *mut Address {
        let actors = find!(actors, Actors);
        // SAFETY: the caller's.
        let name = unsafe { text(name) }.unwrap_or_default();
        let Place::System(system) = &actors.place else { return Err(no_system()) };
        match system.find::<Letter>(&name) {
            Some(address) => AddressRef::put(address),
            None => Err(Fault::argument(format!("there is no actor `{name}`"))),
        }
    }

    /// How many messages no handler has seen to its end, for this reason: PARCAE_LETTER_OVERFLOW
    /// and so on.
    fn parcae_actors_dead_letters(actors: *mut Actors, reason: i32) -> u64 {
        let actors = find!(actors, Actors);
        let Place::System(system) = &actors.place else { return Err(no_system()) };
        let reason = match reason {
            LETTER_OVERFLOW => actor::LetterReason::Overflow,
            LETTER_REPLACED => actor::LetterReason::Replaced,
            LETTER_EXPIRED => actor::LetterReason::Expired,
            LETTER_GONE => actor::LetterReason::Gone,
            LETTER_FAILED => actor::LetterReason::Failed,
            LETTER_POISON => actor::LetterReason::Poison,
            other => return Err(Fault::argument(format!("letter {other} is unknown"))),
        };
        Ok(system.dead_letters().count(reason))
    }

    /// How many restarts the system has left.
    fn parcae_actors_restarts_left(actors: *mut Actors) -> u64 {
        let actors = find!(actors, Actors);
        let Place::System(system) = &actors.place else { return Err(no_system()) };
        Ok(system.restarts_left())
    }
}

fn no_system() -> Fault {
    Fault::argument("a dynamic supervisor only starts actors: the system is needed for this")
}
