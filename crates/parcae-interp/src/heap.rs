//! The heap of a task: objects, their collection, and their way to other tasks.
//!
//! Each task has a heap of its own, which is freed with it. Objects are numbers into a list; 0 is
//! none. Objects that cannot be reached any more are found by marking from the task's slots, with
//! an explicit stack: neither a cycle nor a list of a million links uses up the stack. Bytes are
//! counted against the memory budget before they are allocated.
//!
//! A message, an argument of a task and a result are copied into a [`Packet`], together with all
//! objects that they refer to, and from there into the heap of the receiver: tasks share nothing
//! that can change.

use crate::code::Code;
use crate::failure::{Failure, Fault, panic};
use parcae::channel::{Receiver, Sender};
use parcae::foreign;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object.
#[derive(Debug, Clone)]
pub(crate) enum Object {
    Free,
    Text(Arc<str>),
    Array {
        items: Vec<u64>,
        refs: bool,
    },
    Struct {
        id: u32,
        fields: Box<[u64]>,
    },
    /// A function, captured values, and a bit for each that refers to the heap.
    Closure {
        func: u32,
        captures: Box<[(u64, bool)]>,
    },
    /// One value; in a list, so that its address stays the same.
    Cell {
        value: Vec<u64>,
        refs: bool,
    },
    Channel(Arc<Channel>),
    Task {
        nursery: u64,
        number: usize,
    },
    Failure(Box<Failure>),
}

/// A channel of the runtime, both ends.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) sender: Sender<Message>,
    pub(crate) receiver: Receiver<Message>,
}

/// A value on its way to another task.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    /// A number, or nothing.
    Word(u64),
    Packet(Box<Packet>),
}

/// Values, and all objects that they refer to; references are numbers into the list, from 1.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    words: Vec<(u64, bool)>,
    objects: Vec<Object>,
}

/// Bytes of an object without its contents.
const OVERHEAD: usize = 40;
/// Memory is counted in pieces of this size.
const PIECE: usize = 4096;
/// A heap below this size is not collected.
const SMALL: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Heap {
    objects: Vec<Object>,
    free: Vec<u32>,
    /// Bytes of all objects.
    bytes: usize,
    /// Bytes that are counted against the budget, at least `bytes`.
    held: usize,
    /// Collect beyond this.
    threshold: usize,
    /// For each object, where its contents are.
    views: Vec<View>,
}

/// Contents of an object, for generated code: the elements of an array, the fields of a struct, the
/// value of a cell, the bytes of a text. Empty for all other objects.
///
/// It is written whenever an object is placed, freed, or changes its length.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    data: *mut u64,
    length: usize,
}

// SAFETY: a view points into an object of the heap that has it. Only the task that owns the heap
// follows it.
unsafe impl Send for View {}

impl View {
    const EMPTY: View = View { data: std::ptr::null_mut(), length: 0 };

    fn of(object: &mut Object) -> View {
        let (data, length) = match object {
            Object::Text(text) => (text.as_ptr().cast_mut().cast(), text.len()),
            Object::Array { items, .. } | Object::Cell { value: items, .. } => {
                (items.as_mut_ptr(), items.len())
            }
            Object::Struct { fields, .. } => (fields.as_mut_ptr(), fields.len()),
            _ => return View::EMPTY,
        };
        View { data, length }
    }
}

impl Heap {
    pub(crate) fn new() -> Heap {
        let objects = vec![Object::Free];
        let views = vec![View::EMPTY];
        Heap { objects, free: Vec::new(), bytes: 0, held: 0, threshold: SMALL, views }
    }

    pub(crate) fn is_due(&self) -> bool {
        self.bytes > self.threshold
    }

    /// Counts bytes against the budget.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        let needed = self.bytes.saturating_add(bytes);
        if needed > self.held {
            let more = (needed - self.held).next_multiple_of(PIECE);
            foreign::hold_memory(more).map_err(Fault::Runtime)?;
            self.held += more;
        }
        self.bytes = needed;
        Ok(())
    }

    /// Bytes are not needed any more. They stay counted until the next collection.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Bytes for elements, if there can be so many.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<Vec<u64>, Fault> {
        let bytes = count.checked_mul(8).filter(|bytes| *bytes < isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| panic("P006", "out of memory"))?;
        self.grow(bytes)?;
        let mut items = Vec::new();
        if items.try_reserve_exact(count).is_err() {
            self.give_back(bytes);
            return Err(panic("P006", "out of memory"));
        }
        Ok(items)
    }

    /// Puts an object on the heap. The bytes of an array's elements are counted already.
    pub(crate) fn put(&mut self, object: Object) -> Result<u64, Fault> {
        let bytes = match &object {
            Object::Array { .. } => OVERHEAD,
            other => size(other),
        };
        self.grow(bytes)?;
        let place = self.place(object);
        Ok(u64::from(place))
    }

    /// Puts a failure on the heap. It is not refused: the budget may be the cause of the failure.
    /// The next allocation pays for it.
    pub(crate) fn put_failure(&mut self, failure: Failure) -> u64 {
        let object = Object::Failure(Box::new(failure));
        self.bytes = self.bytes.saturating_add(size(&object));
        u64::from(self.place(object))
    }

    fn place(&mut self, mut object: Object) -> u32 {
        let view = View::of(&mut object);
        if let Some(place) = self.free.pop() {
            self.objects[place as usize] = object;
            self.views[place as usize] = view;
            return place;
        }
        self.objects.push(object);
        self.views.push(view);
        self.objects.len() as u32 - 1
    }

    /// Where the contents of the objects are. Until the next object is placed.
    #[cfg(feature = "engine")]
    pub(crate) fn views(&self) -> *const View {
        self.views.as_ptr()
    }

    pub(crate) fn get(&self, reference: u64) -> &Object {
        &self.objects[reference as usize]
    }

    pub(crate) fn get_mut(&mut self, reference: u64) -> &mut Object {
        &mut self.objects[reference as usize]
    }

    pub(crate) fn text(&self, reference: u64) -> &Arc<str> {
        match self.get(reference) {
            Object::Text(text) => text,
            other => unreachable!("verified: expected a text, found {other:?}"),
        }
    }

    pub(crate) fn items(&self, reference: u64) -> &[u64] {
        match self.get(reference) {
            Object::Array { items, .. } => items,
            other => unreachable!("verified: expected an array, found {other:?}"),
        }
    }

    pub(crate) fn channel(&self, reference: u64) -> Arc<Channel> {
        match self.get(reference) {
            Object::Channel(channel) => Arc::clone(channel),
            other => unreachable!("verified: expected a channel, found {other:?}"),
        }
    }

    /// Appends to an array. Its capacity is counted before it grows.
    pub(crate) fn push(&mut self, array: u64, value: u64) -> Result<(), Fault> {
        let Object::Array { items, .. } = self.get(array) else { unreachable!("verified") };
        if items.len() == items.capacity() {
            let more = items.len().max(4);
            self.grow(8 * more)?;
            let Object::Array { items, .. } = self.get_mut(array) else { unreachable!("verified") };
            if items.try_reserve_exact(more).is_err() {
                return Err(panic("P006", "out of memory"));
            }
        }
        let Object::Array { items, .. } = self.get_mut(array) else { unreachable!("verified") };
        items.push(value);
        self.look_again(array);
        Ok(())
    }

    /// Removes the last element of an array.
    pub(crate) fn pop(&mut self, array: u64) -> Option<u64> {
        let Object::Array { items, .. } = self.get_mut(array) else { unreachable!("verified") };
        let item = items.pop();
        self.look_again(array);
        item
    }

    /// Writes the view of an object whose length has changed.
    fn look_again(&mut self, place: u64) {
        self.views[place as usize] = View::of(&mut self.objects[place as usize]);
    }

    /// Frees everything that the roots do not reach.
    pub(crate) fn collect(&mut self, code: &Code, roots: impl Iterator<Item = u64>) {
        let mut marked = vec![false; self.objects.len()];
        let mut open: Vec<u64> = roots.collect();
        while let Some(next) = open.pop() {
            if next != 0 && !std::mem::replace(&mut marked[next as usize], true) {
                references(code, &self.objects[next as usize], |reference| open.push(reference));
            }
        }
        for (place, object) in self.objects.iter_mut().enumerate().skip(1) {
            if !marked[place] && !matches!(object, Object::Free) {
                self.bytes = self.bytes.saturating_sub(size(object));
                *object = Object::Free;
                self.views[place] = View::EMPTY;
                self.free.push(place as u32);
            }
        }
        self.threshold = (2 * self.bytes).max(SMALL);
        let keep = self.bytes.next_multiple_of(PIECE) + PIECE;
        if self.held > 2 * keep {
            foreign::release_memory(self.held - keep);
            self.held = keep;
        }
    }

    /// Copies values for another task.
    pub(crate) fn pack(&self, code: &Code, values: &[(u64, bool)]) -> Message {
        match values {
            [(word, false)] => Message::Word(*word),
            _ => self.pack_all(code, values),
        }
    }

    /// As [`pack`](Heap::pack), for any number of values.
    pub(crate) fn pack_all(&self, code: &Code, values: &[(u64, bool)]) -> Message {
        let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
        let mut order: Vec<u64> = Vec::new();
        let mut number = |reference: u64, order: &mut Vec<u64>| match reference {
            0 => 0,
            reference => *numbers.entry(reference).or_insert_with(|| {
                order.push(reference);
                order.len() as u64
            }),
        };
        let words = values
            .iter()
            .map(|(word, refs)| (if *refs { number(*word, &mut order) } else { *word }, *refs))
            .collect();
        let mut objects = Vec::new();
        while let Some(next) = order.get(objects.len()).copied() {
            let mut object = self.objects[next as usize].clone();
            rewrite(code, &mut object, |reference| number(reference, &mut order));
            objects.push(object);
        }
        Message::Packet(Box::new(Packet { words, objects }))
    }

    /// Copies a message into this heap: its values.
    pub(crate) fn unpack(&mut self, code: &Code, message: Message) -> Result<Vec<u64>, Fault> {
        let packet = match message {
            Message::Word(word) => return Ok(vec![word]),
            Message::Packet(packet) => *packet,
        };
        let mut places = Vec::with_capacity(packet.objects.len());
        for object in packet.objects {
            if let Object::Array { items, .. } = &object {
                self.grow(8 * items.len())?;
            }
            places.push(self.put(object)?);
        }
        let place = |number: u64| if number == 0 { 0 } else { places[number as usize - 1] };
        for at in &places {
            let mut object = std::mem::replace(self.get_mut(*at), Object::Free);
            rewrite(code, &mut object, place);
            *self.get_mut(*at) = object;
        }
        Ok(packet.words.iter().map(|(w, refs)| if *refs { place(*w) } else { *w }).collect())
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        foreign::release_memory(self.held);
    }
}

fn size(object: &Object) -> usize {
    OVERHEAD
        + match object {
            Object::Text(text) => text.len(),
            Object::Array { items, .. } => 8 * items.capacity(),
            Object::Struct { fields, .. } => 8 * fields.len(),
            Object::Closure { captures, .. } => 16 * captures.len(),
            Object::Channel(_) => 128,
            Object::Failure(_) => 128,
            Object::Free | Object::Cell { .. } | Object::Task { .. } => 0,
        }
}

fn references(code: &Code, object: &Object, mut each: impl FnMut(u64)) {
    match object {
        Object::Array { items, refs: true } => items.iter().for_each(|item| each(*item)),
        Object::Struct { id, fields } => {
            let refs = &code.structs[*id as usize];
            fields.iter().zip(refs).filter(|(_, refs)| **refs).for_each(|(field, _)| each(*field));
        }
        Object::Closure { captures, .. } => {
            captures.iter().filter(|(_, refs)| *refs).for_each(|(value, _)| each(*value));
        }
        Object::Cell { value, refs: true } => each(value[0]),
        _ => {}
    }
}

fn rewrite(code: &Code, object: &mut Object, mut each: impl FnMut(u64) -> u64) {
    match object {
        Object::Array { items, refs: true } => {
            items.iter_mut().for_each(|item| *item = each(*item));
        }
        Object::Struct { id, fields } => {
            for (field, refs) in fields.iter_mut().zip(&code.structs[*id as usize]) {
                if *refs {
                    *field = each(*field);
                }
            }
        }
        Object::Closure { captures, .. } => {
            for (value, refs) in captures.iter_mut() {
                if *refs {
                    *value = each(*value);
                }
            }
        }
        Object::Cell { value, refs: true } => value[0] = each(value[0]),
        _ => {}
    }
}
