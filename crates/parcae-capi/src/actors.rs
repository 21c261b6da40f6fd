//! Actors whose functions are in C: messages, the actor itself, its objects.
//!
//! # Messages
//!
//! A message on its way is a [`Letter`]. Its [`Body`] owns the data and destroys it when it is
//! dropped, wherever that is: in a mailbox that is closed, or after the handler. Bytes are copied
//! into memory of the C allocator, so that a handler that keeps them can free them. A message that
//! was not sent belongs to its sender as before.
//!
//! # Callbacks
//!
//! A function of an actor runs on the task of its incarnation, with a
//! [context](crate::caller::CallerContext) of its own: nurseries that it has left open are awaited,
//! as those of a task are. The context knows the actor for the time of the call ([`Handling`]), so
//! that functions which only an actor can call find it. The pointers in it are made of the
//! exclusive references that this module has, and does not use before the callback has returned.
//!
//! # States
//!
//! `start` makes a state, and each state is destroyed once, when its [`ActorInC`] is dropped: after
//! `stop`, or without it if the actor slept while its system was cancelled.
//!
//! # Answers
//!
//! The authority to answer is an object of the table for the time of the handler. After that it is
//! removed, and the caller hears that there is no answer, unless the handler has kept it. It is
//! removed while a panic unwinds, too, so the caller hears which of the two it was.
//!
//! # Systems
//!
//! A system lives in a nursery of its opener that has nothing else: one task, which waits inside of
//! `cx.actors` until the nursery is closed. So it ends with the task or thread that has opened it,
//! and the result of the nursery is that of the system.

use crate::caller::{self, CallerContext};
use crate::fault::{ChildCode, Fault};
use crate::global::ROOT;
use crate::objects::{Thing, ThingKind};
use crate::types::*;
use parcae_actor as actor;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The data of a message, which it owns.
pub(crate) struct Body(Message);

// SAFETY: the program's data is only carried, and destroyed by the function that the program names
// for it.
unsafe impl Send for Body {}

impl Body {
    /// The message as it is sent: bytes are copied, data without a size is moved.
    ///
    /// # Safety
    ///
    /// NULL, or a message whose data has as many bytes as it says.
    pub(crate) unsafe fn take(given: *const Message) -> Result<Body, Fault> {
        // SAFETY: the caller's.
        let Some(&message) = (unsafe { given.as_ref() }) else {
            return Err(Fault::new(E_NULL, "a parcae_message is required, not NULL"));
        };
        if message.size == 0 {
            return Ok(Body(message));
        }
        if message.data.is_null() {
            return Err(Fault::new(E_NULL, "the message has a size and no data"));
        }
        // SAFETY: any size is allowed.
        let copy = unsafe { libc::malloc(message.size) };
        if copy.is_null() {
            let text = format!("no memory for a message of {} bytes", message.size);
            return Err(Fault::new(E_OUT_OF_MEMORY, text));
        }
        // SAFETY: the copy has this size, and so has the data, as the caller says.
        unsafe { copy.cast::<u8>().copy_from_nonoverlapping(message.data.cast(), message.size) };
        Ok(Body(Message { data: copy, drop: Some(free), ..message }))
    }

    /// Leaves the data to the sender, for a message that was not sent. A copy is destroyed.
    pub(crate) fn give_back(mut self) {
        if self.0.size == 0 {
            self.0.drop = None;
        }
    }

    /// Hands the message to the program, which destroys it.
    pub(crate) fn hand_over(mut self) -> Message {
        std::mem::replace(&mut self.0, Message::EMPTY)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        destroy(&mut self.0);
    }
}

/// Destroys the data of a message, which is empty afterwards.
pub(crate) fn destroy(message: &mut Message) {
    let Message { data, drop, .. } = std::mem::replace(message, Message::EMPTY);
    if let Some(drop) = drop {
        // SAFETY: the function that the program named for this data; each message has one owner,
        // and is empty now.
        unsafe { drop(data) };
    }
}

/// # Safety
///
/// Memory of [`libc::malloc`].
unsafe extern "C" fn free(data: *mut c_void) {
    // SAFETY: the caller's.
    unsafe { libc::free(data) };
}

/// A message in a mailbox.
pub(crate) struct Letter {
    pub(crate) body: Body,
    pub(crate) reply: Option<actor::Reply<Body>>,
}

/// The authority to answer a call.
pub(crate) struct ReplyRef {
    reply: Mutex<Option<actor::Reply<Body>>>,
    /// Whether it stays when its handler returns. Written by that handler's task.
    is_kept: AtomicBool,
}

impl ReplyRef {
    pub(crate) fn take(&self) -> Option<actor::Reply<Body>> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed); // read by the same task, in `Answering`
    }
}

/// The handle of an answer while its handler runs; null if none is asked for.
struct Answering {
    handle: *mut Replying,
    reply: Option<Arc<ReplyRef>>,
}

impl Answering {
    fn new(reply: Option<actor::Reply<Body>>) -> Result<Answering, Fault> {
        let Some(reply) = reply else {
            return Ok(Answering { handle: std::ptr::null_mut(), reply: None });
        };
        let reply = ReplyRef { reply: Mutex::new(Some(reply)), is_kept: AtomicBool::new(false) };
        let reply = Arc::new(reply);
        let handle = ROOT.objects.insert(Thing::Reply(Arc::clone(&reply)))?.cast();
        Ok(Answering { handle, reply: Some(reply) })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // Relaxed: as at the store.
        if self.reply.as_ref().is_some_and(|reply| !reply.is_kept.load(Ordering::Relaxed)) {
            // One that was sent has no handle any more.
            drop(ROOT.objects.remove(self.handle, ThingKind::Reply));
            drop(self.reply.take().and_then(|reply| reply.take()));
        }
    }
}

/// The address of an actor.
pub(crate) struct AddressRef {
    pub(crate) address: actor::Address<Letter>,
    /// Takes it back, if it is revocable.
    pub(crate) revoke: Option<Box<dyn Fn() + Send + Sync>>,
}

impl AddressRef {
    /// An address, with a new handle.
    pub(crate) fn put(address: actor::Address<Letter>) -> Result<*mut Address, Fault> {
        let address = AddressRef { address, revoke: None };
        Ok(ROOT.objects.insert(Thing::Address(Arc::new(address)))?.cast())
    }
}

/// A monitor for tasks and threads.
pub(crate) struct WatchRef {
    pub(crate) watch: actor::Watch,
    /// The text of `parcae_exit.text`.
    text: OnceLock<CString>,
}

impl WatchRef {
    pub(crate) fn new(watch: actor::Watch) -> WatchRef {
        WatchRef { watch, text: OnceLock::new() }
    }

    /// The end, for C.
    pub(crate) fn told(&self, exit: &actor::Exit) -> Exit {
        let text = self.text.get_or_init(|| text_of(exit));
        exit_of(exit, text)
    }
}

/// A place where actors are started: a system, or a dynamic supervisor in it.
#[derive(Clone)]
pub(crate) enum Place {
    System(actor::System<'static>),
    Dynamic(actor::Dynamic<'static>),
}

/// A system or a dynamic supervisor, and the system that it belongs to.
pub(crate) struct ActorsRef {
    pub(crate) place: Place,
    pub(crate) system: Arc<SystemRef>,
}

/// An open system.
pub(crate) struct SystemRef {
    /// The handle of its runtime.
    pub(crate) home: usize,
    /// The handle of its nursery.
    pub(crate) nursery: usize,
    /// Set when the nursery is closed.
    pub(crate) closing: parcae::sync::Event,
    /// Handles of the system and of its dynamic supervisors.
    handles: Mutex<Vec<usize>>,
}

impl SystemRef {
    pub(crate) fn new(home: usize, nursery: usize) -> Arc<SystemRef> {
        let (closing, handles) = (parcae::sync::Event::new(), Mutex::default());
        Arc::new(SystemRef { home, nursery, closing, handles })
    }

    /// A handle of a place in this system.
    pub(crate) fn put(self: &Arc<Self>, place: Place) -> Result<*mut Actors, Fault> {
        let actors = Arc::new(ActorsRef { place, system: Arc::clone(self) });
        let handle = ROOT.objects.insert(Thing::Actors(actors))?;
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(handle.addr());
        Ok(handle.cast())
    }

    /// Ends the system and its handles.
    pub(crate) fn close(&self) {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let handles = std::mem::take(&mut *handles);
        for handle in handles {
            let handle = std::ptr::without_provenance_mut::<c_void>(handle);
            drop(ROOT.objects.remove(handle, ThingKind::Actors));
        }
        self.closing.set();
    }
}

/// The children of a supervisor while a callback names them.
pub(crate) struct ChildrenRef {
    /// Null after the callback.
    children: Mutex<*mut actor::Children<'static>>,
    pub(crate) home: usize,
}

// SAFETY: the pointer is used under the lock, and only while its callback runs, which has the
// exclusive reference.
unsafe impl Send for ChildrenRef {}
// SAFETY: as above.
unsafe impl Sync for ChildrenRef {}

impl ChildrenRef {
    /// Adds to the children.
    pub(crate) fn add<R>(
        &self,
        add: impl FnOnce(&mut actor::Children<'static>) -> parcae::Result<R>,
    ) -> Result<R, Fault> {
        let children = self.lock();
        // SAFETY: not null only while the callback runs, whose caller lends the children; no other
        // reference is made, under the lock.
        let Some(children) = (unsafe { children.as_mut() }) else {
            return Err(Fault::argument("the children of a supervisor are named in its callback"));
        };
        Ok(add(children)?)
    }

    fn lock(&self) -> MutexGuard<'_, *mut actor::Children<'static>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has a callback of the program name the children of a supervisor.
pub(crate) fn name_children(
    home: usize,
    children: &mut actor::Children<'static>,
    call: impl FnOnce(*mut Children) -> i64,
) -> parcae::Result<()> {
    struct Named(*mut c_void, Arc<ChildrenRef>);
    impl Drop for Named {
        fn drop(&mut self) {
            *self.1.lock() = std::ptr::null_mut();
            drop(ROOT.objects.remove(self.0, ThingKind::Children));
        }
    }
    let named = Arc::new(ChildrenRef { children: Mutex::new(children), home });
    let handle = ROOT.objects.insert(Thing::Children(Arc::clone(&named)));
    let handle = handle.map_err(|fault| parcae::Error::msg(fault.text))?;
    let named = Named(handle, named);
    let context = CallerContext::new(home);
    caller::run_callback(context, || call(named.0.cast())).map(drop)
}

/// The functions of an actor, and how it begins.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    pub(crate) start: StartFn,
    pub(crate) handle: unsafe extern "C-unwind" fn(*mut c_void, *mut Message, *mut Replying) -> i64,
    pub(crate) event: EventFn,
    pub(crate) stop: StopFn,
    pub(crate) drop: DropFn,
    pub(crate) arg: *mut c_void,
    /// The handle of the runtime.
    pub(crate) home: usize,
}

// SAFETY: the argument is only carried; its target belongs to the program.
unsafe impl Send for Functions {}

/// An incarnation of an actor in C.
pub(crate) struct ActorInC {
    functions: Functions,
    state: *mut c_void,
    /// Whether `start` has made the state.
    is_made: bool,
    /// Number and last end, for `start`.
    birth: (u64, Option<actor::Exit>),
    /// The handle of its own address, once it was asked for.
    own: *mut Address,
}

// SAFETY: as `Functions`.
unsafe impl Send for ActorInC {}

/// The actor whose callback runs.
#[derive(Clone, Copy)]
pub(crate) struct Handling {
    pub(crate) actor: *mut ActorInC,
    pub(crate) cx: *mut actor::ActorCx<'static, Letter>,
}

impl ActorInC {
    pub(crate) fn new(functions: Functions, birth: &actor::Birth) -> ActorInC {
        let birth = (birth.incarnation(), birth.last_exit().cloned());
        let own = std::ptr::null_mut();
        ActorInC { functions, state: functions.arg, is_made: false, birth, own }
    }

    /// The handle of its own address.
    pub(crate) fn own(&mut self, address: actor::Address<Letter>) -> Result<*mut Address, Fault> {
        if self.own.is_null() {
            self.own = AddressRef::put(address)?;
        }
        Ok(self.own)
    }

    /// Runs a callback on the actor's task.
    fn run(
        &mut self,
        cx: &mut actor::ActorCx<'_, Letter>,
        call: impl FnOnce(*mut c_void) -> i64,
    ) -> parcae::Result<i64> {
        let context = CallerContext::new(self.functions.home);
        let state = self.state;
        // Neither is used here before the callback has returned.
        context.handling.set(Some(Handling {
            actor: self,
            cx: std::ptr::from_mut(cx).cast::<actor::ActorCx<'static, Letter>>(),
        }));
        caller::run_callback(context, || call(state))
    }
}

fn next(code: i64) -> parcae::Result<actor::Next> {
    const CONTINUE: i64 = NEXT_CONTINUE as i64;
    const HIBERNATE: i64 = NEXT_HIBERNATE as i64;
    const STOP: i64 = NEXT_STOP as i64;
    match code {
        CONTINUE => Ok(actor::Next::Continue),
        HIBERNATE => Ok(actor::Next::Hibernate),
        STOP => Ok(actor::Next::Stop),
        other => Err(parcae::Error::msg(format!(
            "a handler has returned {other}, which is none of PARCAE_NEXT_CONTINUE to _STOP"
        ))),
    }
}

impl actor::Actor for ActorInC {
    type Msg = Letter;

    fn started(&mut self, cx: &mut actor::ActorCx<'_, Letter>) -> parcae::Result<()> {
        let Some(start) = self.functions.start else { return Ok(()) };
        let (incarnation, last) = (self.birth.0, self.birth.1.take());
        let text = last.as_ref().map(text_of);
        let last = last.as_ref().zip(text.as_ref()).map(|(exit, text)| exit_of(exit, text));
        let last = last.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let birth = Birth { incarnation, last };
        let mut made = std::ptr::null_mut();
        // SAFETY: the function that the program named, with pointers that are valid for the call.
        self.run(cx, |arg| unsafe { start(arg, &raw const birth, &raw mut made) })?;
        (self.state, self.is_made) = (made, true);
        Ok(())
    }

    fn handle(
        &mut self,
        cx: &mut actor::ActorCx<'_, Letter>,
        letter: Letter,
    ) -> parcae::Result<actor::Next> {
        let Letter { mut body, reply } = letter;
        let answering = Answering::new(reply).map_err(|fault| parcae::Error::msg(fault.text))?;
        let handle = self.functions.handle;
        // SAFETY: the function that the program named, with pointers that are valid for the call.
        let code =
            self.run(cx, |state| unsafe { handle(state, &raw mut body.0, answering.handle) });
        next(code?)
    }

    fn event(
        &mut self,
        cx: &mut actor::ActorCx<'_, Letter>,
        event: actor::Event,
    ) -> parcae::Result<actor::Next> {
        let Some(call) = self.functions.event else { return Ok(actor::Next::Continue) };
        let (kind, monitor, name, exit, missed) = match event {
            actor::Event::Down(down) => {
                (EVENT_DOWN, down.id.as_u64(), down.name, Some(down.exit), 0)
            }
            actor::Event::Timer { key, missed } => (EVENT_TIMER, 0, key, None, missed),
            _ => return Ok(actor::Next::Continue), // a kind that C does not know
        };
        let name = CString::new(name.replace('\0', " ")).unwrap_or_default();
        let text = exit.as_ref().map(text_of);
        let exit = exit.as_ref().zip(text.as_ref()).map(|(exit, text)| exit_of(exit, text));
        let exit = exit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let event = Event { kind, monitor, name: name.as_ptr(), exit, missed };
        // SAFETY: the function that the program named, with pointers that are valid for the call.
        next(self.run(cx, |state| unsafe { call(state, &raw const event) })?)
    }

    fn stopping(&mut self, cx: &mut actor::ActorCx<'_, Letter>, exit: &actor::Exit) {
        let Some(stop) = self.functions.stop else { return };
        let text = text_of(exit);
        let exit = exit_of(exit, &text);
        // The incarnation has ended; a failure of nurseries that `stop` has left open changes
        // nothing.
        let _ = self.run(cx, |state| {
            // SAFETY: as in `event`.
            unsafe { stop(state, &raw const exit) };
            0
        });
    }

    fn key(letter: &Letter) -> u64 {
        letter.body.0.tag
    }
}

impl Drop for ActorInC {
    fn drop(&mut self) {
        if !self.own.is_null() {
            drop(ROOT.objects.remove(self.own, ThingKind::Address));
        }
        if let (true, Some(drop)) = (self.is_made, self.functions.drop) {
            // SAFETY: the function that the program named for states that `start` has made.
            unsafe { drop(self.state) };
        }
    }
}

/// How an actor ended, in words.
pub(crate) fn text_of(exit: &actor::Exit) -> CString {
    CString::new(exit.to_string().replace('\0', " ")).unwrap_or_default()
}

fn exit_of(exit: &actor::Exit, text: &std::ffi::CStr) -> Exit {
    let code = exit.error().and_then(|error| error.downcast_ref::<ChildCode>());
    Exit {
        kind: match exit.kind() {
            actor::ExitKind::Finished => EXIT_FINISHED,
            actor::ExitKind::Stopped => EXIT_STOPPED,
            actor::ExitKind::Panicked => EXIT_PANICKED,
            actor::ExitKind::Cancelled => EXIT_CANCELLED,
            actor::ExitKind::Exhausted => EXIT_EXHAUSTED,
            actor::ExitKind::NotStarted => EXIT_NOT_STARTED,
            _ => EXIT_FAILED,
        },
        code: code.map_or(0, |code| code.0),
        incarnation: exit.incarnation(),
        handled: exit.handled(),
        text: text.as_ptr(),
    }
}
