//! Opcodes. The names are those of QTJIR, where it has the operation.

/// Effect of an operation, as far as charging is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Reads and writes only the task's own values, and cannot fail.
    Pure,
    /// Cannot be observed by others, but may fail the task.
    Traps,
    /// Allocates: may fail, and owes one op afterwards.
    Allocates,
    /// Calls another function of the program.
    Calls,
    /// Observed by other tasks, by the user or by the runtime; may wait and may fail.
    Observes,
    /// An operation on a channel: observed, and preceded by a check.
    Channel,
    /// Part of metering itself.
    Meters,
}

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident $effect:ident)*) => {
        /// An operation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types, reason = "the names of QTJIR")]
        pub enum Opcode { $($(#[$doc])* $name),* }

        impl Opcode {
            /// All of them.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name),*];

            /// The name in the text form.
            pub fn name(self) -> &'static str {
                match self { $(Opcode::$name => stringify!($name)),* }
            }

            /// The opcode of this name.
            pub fn from_name(name: &str) -> Option<Opcode> {
                match name { $(stringify!($name) => Some(Opcode::$name),)* _ => None }
            }

            /// Its effect. Arithmetic on floats has none; see [`Inst::effect`](crate::Inst).
            pub fn effect(self) -> Effect {
                match self { $(Opcode::$name => Effect::$effect),* }
            }
        }
    };
}

opcodes! {
    /// An immediate value of the result's type.
    Constant Pure
    /// An error of the result's set, by its number.
    Error_Value Pure
    /// A function as a value.
    Fn_Ref Allocates
    /// A function with captured values.
    Closure_Create Allocates
    /// Calls a function value.
    Closure_Call Calls
    /// Calls a function.
    Call Calls
    /// Sum; overflow fails the task with P002.
    Add Traps
    /// Difference; see `Add`.
    Sub Traps
    /// Product; see `Add`.
    Mul Traps
    /// Quotient; P003 if the divisor is 0.
    Div Traps
    /// Remainder; see `Div`.
    Rem Traps
    /// Power of an integer; see `Add`.
    Pow Traps
    /// Negated value; see `Add`.
    Neg Traps
    /// Magnitude; see `Add`.
    Abs Traps
    /// Sum that wraps around.
    Wrap_Add Pure
    /// Difference that wraps around.
    Wrap_Sub Pure
    /// Product that wraps around.
    Wrap_Mul Pure
    /// The smaller value.
    Min Pure
    /// The greater value.
    Max Pure
    /// Square root.
    Sqrt Pure
    /// Number of another type; P002 if it does not fit.
    Convert Traps
    /// Equality, of texts by their content.
    Equal Pure
    /// Inequality.
    NotEqual Pure
    /// Order.
    Less Pure
    /// Order.
    LessEqual Pure
    /// Order.
    Greater Pure
    /// Order.
    GreaterEqual Pure
    /// Bits in both.
    BitAnd Pure
    /// Bits in one or both.
    BitOr Pure
    /// Bits in one of both.
    Xor Pure
    /// Shift; P002 if the distance is not in 0..width.
    Shl Traps
    /// Arithmetic shift; see `Shl`.
    Shr Traps
    /// Negated truth value.
    Not Pure
    /// Text of a value.
    To_String Allocates
    /// Two texts in a row.
    String_Concat Allocates
    /// Part of a text: from, to (exclusive).
    String_Slice Allocates
    /// A byte of a text.
    String_Index Traps
    /// Length of a text in bytes.
    String_Len Pure
    /// Integer that a text denotes, or `ParseError`.
    String_Parse Pure
    /// Parts of a text between separators.
    String_Split Allocates
    /// Text of one character.
    Chr Allocates
    /// Array of the arguments.
    Array_Construct Allocates
    /// Array of a count of equal values.
    Array_New Allocates
    /// Number of elements.
    Array_Len Pure
    /// Element; P001 if there is none.
    Index Traps
    /// Writes an element; P001 if there is none.
    Index_Store Traps
    /// Appends an element.
    Array_Push Allocates
    /// Removes the last element; P001 if there is none.
    Array_Pop Traps
    /// Copy of a part: from, to (exclusive).
    Array_Slice Allocates
    /// Struct of the arguments.
    Struct_Construct Allocates
    /// Field of a struct, by its number.
    Field_Access Pure
    /// The struct with another value in a field.
    Field_Store Allocates
    /// Cell of a captured variable.
    Cell_New Allocates
    /// Value of a cell.
    Cell_Load Pure
    /// Writes a cell.
    Cell_Store Pure
    /// A result that is a value.
    Error_Wrap Pure
    /// A result that is an error.
    Error_Fail Pure
    /// Whether a result is an error.
    Error_Is Pure
    /// Value of a result that is one.
    Error_Unwrap Pure
    /// Error of a result that is one.
    Error_Get Pure
    /// Whether a failure is this error.
    Failure_Is Pure
    /// Whether a failure is a closed channel.
    Failure_Closed Pure
    /// Failure of a nursery's negative code.
    Failure_Code Allocates
    /// Calls a function of the host, by its name.
    Host_Call Observes
    /// Writes a text; the immediate says whether the line ends.
    Print Observes
    /// Waits some milliseconds.
    Sleep Observes
    /// Milliseconds since an arbitrary instant.
    Now Observes
    /// Arguments of the program.
    Args Allocates
    /// Fails the task with P004 unless the value is true.
    Assert Traps
    /// Fails the task with a message.
    Trap Traps
    /// Fails the task with a typed error.
    Raise Traps
    /// Subtracts ops: the immediate, or the argument.
    Budget_Decrement Meters
    /// A round of a loop ends, of which the control flow shows none: it owes an op.
    Budget_Round Meters
    /// Ops until the next payment.
    Budget_Left Meters
    /// The end of a strip that begins at the first value: at most the second, and at most as many
    /// steps away as there are ops until the next payment, less the immediate. At least the first.
    Budget_Strip Meters
    /// Yields or fails the task if its turn or its budget is used up, or it was cancelled.
    Budget_Check Meters
    /// Begins a cleanup on the way of a failure: it has ops in reserve, and is not cancelled.
    Shield_Begin Pure
    /// Ends it.
    Shield_End Pure
    /// Lets other tasks run.
    Yield Observes
    /// Whether the task was cancelled.
    Cancel_Query Observes
    /// Cancels a task.
    Task_Cancel Observes
    /// Opens a nursery; the arguments are the components of its budget, -1 if unlimited.
    Nursery_Begin Observes
    /// Cancels the tasks of a nursery.
    Nursery_Cancel Observes
    /// Waits for the tasks of a nursery and closes it: the first negative code, or 0. Fails if a
    /// task failed.
    Nursery_End Observes
    /// On the way of a failure: cancels, waits, closes; the failure that is the cause.
    Nursery_Abort Observes
    /// Starts a task in the innermost nursery.
    Spawn Observes
    /// As `Spawn`, from `async f(x)`.
    Async_Call Observes
    /// Waits for a task: its result.
    Await Observes
    /// `Spawn` after lowering.
    Task_Create Observes
    /// `Await` after lowering.
    Task_Join Observes
    /// Makes a channel of a capacity.
    Channel_Create Allocates
    /// Sends; fails if the channel is closed.
    Channel_Send Channel
    /// Receives; fails if the channel is closed and empty.
    Channel_Recv Channel
    /// Sends if there is room: whether it did.
    Channel_TrySend Channel
    /// Closes.
    Channel_Close Observes
    /// Whether it is closed.
    Channel_IsClosed Observes
    /// Begins the list of cases.
    Select_Begin Pure
    /// Adds a case: receive.
    Select_Add_Recv Pure
    /// Adds a case: send a value.
    Select_Add_Send Pure
    /// Adds a case: some milliseconds pass.
    Select_Add_Timeout Pure
    /// Adds a case: nothing else is possible now.
    Select_Add_Default Pure
    /// Waits for a case: its number.
    Select_Wait Channel
    /// Value that the chosen case received; fails if its channel is closed.
    Select_Get_Value Traps
}
