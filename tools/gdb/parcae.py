"""Fibers in gdb: of a process that is stopped, or of a core file.

    (gdb) source tools/gdb/parcae.py
    (gdb) parcae fibers            all of them, in one line each
    (gdb) parcae bt 3              the stack of one
    (gdb) parcae bt                the stacks of all that do not run
    (gdb) parcae bt miner          of all with this name

Nothing is changed in the process, so it works on core files too. The stacks of a program are in arenas, and these in a
list that begins at `parcae::stack::registry::HEAD`. At the top of each stack is a label of 64 bytes: who uses it,
a name, and where the registers are that were saved when the stack was left. To show such a stack, an unwinder
tells gdb that the frame which the thread is in was called from there.

The layouts are those of `ArenaEntry` in stack/registry.rs, `Label` in stack/overflow/label.rs and `Context` in arch/x86_64.rs, each
of which asserts them. No description of types is needed: it works for release builds, if they are not stripped.

Limits: x86_64, gdb 12 or later. A `Fiber` that has resumed another one is shown where it was last suspended. gdb's own
`generate-core-file` cannot read memory with guards in it and leaves stacks out; the kernel's core files have them.
"""

import re
import struct

import gdb
from gdb.unwinder import Unwinder, register_unwinder

HEAD = "parcae::stack::registry::HEAD"
LABEL = 64
# What the label of a stack on which a scheduler runs tasks has in place of a number.
TASK = (1 << 64) - 1
CONTAINED = (1 << 64) - 2
# In the order in which a context has them.
REGISTERS = ("rsp", "rbx", "rbp", "r12", "r13", "r14", "r15")
# A stack without one of these has no task: a worker keeps it for the next.
TASK_FRAMES = ("parcae::sched::task::call", "parcae::stack::fiber::fiber_main")
# No fiber is deeper than a debugger should print.
DEEPEST = 500


def read(address, layout):
    memory = gdb.selected_inferior().read_memory(address, struct.calcsize(layout))
    return struct.unpack(layout, bytes(memory))


class Fiber:
    """A stack that somebody uses."""

    def __init__(self, top, bottom, label):
        self.top = top
        self.bottom = bottom
        self.id, length, depth, name = label
        self.name = name[: min(length, 48)].decode("utf-8", "replace")
        self.context = top - depth
        self.thread = None

    def title(self):
        kinds = {TASK: "task", CONTAINED: "contained closure"}
        kind = kinds.get(self.id, "fiber %d" % self.id)
        return kind + (" `%s`" % self.name if self.name else "")

    def registers(self):
        """What was saved when the stack was left, and where it goes on."""
        values = dict(zip(REGISTERS, read(self.context, "<7Q")))
        (values["rip"],) = read(values["rsp"], "<Q")
        values["rsp"] += 8
        return values


def head():
    """The address of the list of arenas."""
    try:
        # The same expression whatever the language of the frame is that the debugger is in.
        with gdb.with_parameter("language", "c"):
            return int(gdb.parse_and_eval("(unsigned long)&'%s'" % HEAD))
    except gdb.error:
        pass
    # The optimiser gives it a longer name when it is used by several parts of the program.
    listed = gdb.execute("info variables %s" % HEAD, to_string=True)
    found = re.search(r"^(0x[0-9a-f]+)\s+%s\b" % HEAD, listed, re.MULTILINE)
    if not found:
        raise gdb.GdbError("no fibers: there is no %s in this program" % HEAD)
    return int(found.group(1), 16)


def arenas():
    (entry,) = read(head(), "<Q")
    while entry:
        base, length, stride, guard, following = read(entry + 8, "<5Q")
        if base > 1 and stride:
            yield base, length, stride, guard
        entry = following


def fibers():
    """All stacks in use, in the order of their addresses."""
    found = []
    for base, length, stride, guard in sorted(arenas()):
        for bottom in range(base, base + length - stride + 1, stride):
            top = bottom + stride
            try:
                label = read(top - LABEL, "<QII48s")
            except gdb.MemoryError:
                continue  # never used, and so not part of a core file
            if label[0] and label[2]:
                found.append(Fiber(top, bottom + guard, label))
    for thread, sp in stack_pointers():
        for fiber in found:
            if fiber.bottom <= sp <= fiber.top:
                fiber.thread = thread
    return found


def stack_pointers():
    chosen = gdb.selected_thread()
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        yield thread, int(gdb.newest_frame().read_register("rsp"))
    if chosen:
        chosen.switch()


class FrameId:
    """What gdb tells frames apart by; gdb itself has such a class from version 14 on."""

    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class Seam(Unwinder):
    """Says that the newest frame of a thread was called by a fiber, while one is shown."""

    def __init__(self):
        super().__init__("parcae")
        self.fiber = None
        self.at = None

    def __call__(self, pending):
        if self.fiber is None:
            return None
        sp, pc = pending.read_register("rsp"), pending.read_register("rip")
        if (int(sp), int(pc)) != self.at:
            return None
        info = pending.create_unwind_info(FrameId(sp, pc))
        word = gdb.selected_inferior().architecture().integer_type(64, False)
        for name, value in self.fiber.registers().items():
            info.add_saved_register(name, gdb.Value(value).cast(word))
        return info

    def frames(self, fiber):
        """The frames of a fiber that does not run, innermost first."""
        newest = gdb.newest_frame()
        self.at = (int(newest.read_register("rsp")), int(newest.read_register("rip")))
        self.fiber = fiber
        gdb.invalidate_cached_frames()
        try:
            frame = gdb.newest_frame().older()
            while frame is not None and frame.is_valid():
                yield Line(frame)
                frame = frame.older()
        finally:
            self.fiber = None
            gdb.invalidate_cached_frames()


def plain(name):
    """A function's name without what it is generic over, which can be a page."""
    kept, depth = [], 0
    for at, letter in enumerate(name):
        arrow = letter == ">" and name[at - 1 : at] == "-"
        if letter == "<":
            depth += 1
        elif letter == ">" and not arrow:
            depth -= 1
        elif depth == 0:
            kept.append(letter)
    return "".join(kept) or name


class Line:
    """A frame, kept when gdb has forgotten it."""

    def __init__(self, frame):
        # The address of the call, not of what comes after it. The symbol is that of the function which others
        # may have been inlined into; of release builds it has more to say than the debugger.
        symbol = gdb.execute("info symbol %#x" % (frame.pc() - 1), to_string=True)
        self.function = re.sub(r"::h[0-9a-f]{16}$", "", plain(re.split(r" \+ | in section", symbol)[0]))
        name = plain(frame.name() or "??")
        if frame.type() != gdb.INLINE_FRAME and not symbol.startswith("No symbol"):
            name = self.function
        self.text = "%#018x in %s" % (frame.pc(), name)
        place = frame.find_sal()
        if place.symtab:
            self.text += " at %s:%d" % (place.symtab.filename, place.line)

    def begins_task(self):
        return any(self.function.startswith(name) for name in TASK_FRAMES)


SEAM = Seam()


def stack(fiber):
    """The frames of a fiber, and why there are no more, if something is wrong with them."""
    lines, end = [], None
    try:
        for line in SEAM.frames(fiber):
            lines.append(line)
            if len(lines) == DEEPEST:
                end = "... and more"
                break
    except gdb.error as error:
        end = "(%s)" % error
    return lines, end


def state(fiber, lines):
    if fiber.thread is not None:
        return "runs on thread %d" % fiber.thread.num
    if not any(line.begins_task() for line in lines):
        return "spare"
    return "suspended"


def own(lines):
    """What is the task's: below it is the loop of the worker that has started it, the same for all."""
    for level, line in enumerate(lines):
        if line.begins_task():
            return lines[:level]
    return lines


def show(number, fiber, lines):
    used = fiber.top - fiber.registers()["rsp"]
    depth = "" if fiber.thread else ", %d of %d bytes deep" % (used, fiber.top - fiber.bottom)
    gdb.write("%3d  %s: %s%s\n" % (number, fiber.title(), state(fiber, lines), depth))


class Parcae(gdb.Command):
    """Fibers of the parcae runtime: `parcae fibers`, `parcae bt [NUMBER | NAME]`."""

    def __init__(self):
        super().__init__("parcae", gdb.COMMAND_STACK, prefix=True)


class Fibers(gdb.Command):
    """All fibers, in one line each."""

    def __init__(self):
        super().__init__("parcae fibers", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for number, fiber in enumerate(fibers(), 1):
            show(number, fiber, [] if fiber.thread else stack(fiber)[0])


class Backtrace(gdb.Command):
    """The stacks of fibers that do not run: of all, of one by its number, or of those with a name.

    Fibers that run are where their thread is: `thread N`, `bt`."""

    def __init__(self):
        super().__init__("parcae bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted = argument.strip()
        shown = 0
        for number, fiber in enumerate(fibers(), 1):
            if wanted and wanted not in (str(number), fiber.name):
                continue
            lines, end = ([], None) if fiber.thread else stack(fiber)
            if not wanted and state(fiber, lines) == "spare":
                continue
            show(number, fiber, lines)
            for level, line in enumerate(own(lines)):
                gdb.write("     #%-2d %s\n" % (level, line.text))
            if end:
                gdb.write("     %s\n" % end)
            shown += 1
        if not shown:
            raise gdb.GdbError("no such fiber; `parcae fibers` lists them")


# The signal by which workers are asked where they are (`SIGRTMIN + 9`) is no reason to stop.
gdb.execute("handle SIG43 nostop noprint pass", to_string=True)
register_unwinder(None, SEAM, replace=True)
Parcae()
Fibers()
Backtrace()
