//! The macro for a fixed list of cases.

/// Waits for the first of several operations, and runs its arm.
///
/// | case | happens when | gives |
/// |---|---|---|
/// | `recv(rx) -> v => …` | there is a value, or the channel is closed and empty | `Result<T, RecvError>` |
/// | `recv(after(time)) -> v => …` | the point in time has come; likewise for `at`, `tick` and `never` | `Result<Instant, RecvError>` |
/// | `send(tx, value) -> r => …` | there is room, or the channel is closed | `Result<(), SendError<T>>` |
/// | `send_with(tx, \|\| value) -> r => …` | as `send`, with a value that is made when the send is possible | the same |
/// | `offer(tx, &mut slot) -> r => …` | as `send`, with the value in an `Option`, where it stays if another case happens | the same |
/// | `next(subscriber) -> v => …` | a broadcast has another value, or is closed | `Result<T, RecvError>` |
/// | `changed(watcher) -> v => …` | the watched value has changed, or is closed | `Result<Arc<T>, RecvError>` |
/// | `ended(task) => …` | the task of a handle has ended: joining does not wait | |
/// | `join_next(set) -> r => …` | a child in a [`JoinSet`](crate::nursery::JoinSet) has ended; never while the set is empty | its [`Result`](crate::Result) |
/// | `timeout(time) => …` | the time has passed | |
/// | `deadline(instant) => …` | the deadline has passed on the clock of [`time::now`](crate::time::now) | |
/// | `cancelled(token) -> why => …` | the token is cancelled | [`CancelReason`](crate::CancelReason) |
/// | `default => …` | no other case is possible at once | |
///
/// The result is a [`Result`](crate::Result): the value of the chosen arm, or an error if the task
/// is cancelled or its budget is exhausted, in which case no case has happened. `?`, `return`,
/// `break` and `continue` in an arm are those of the surrounding code. See
/// [`select`](mod@crate::select) for the guarantees.
///
/// Operands are evaluated once, in order, and may be temporaries: they live until the whole
/// expression is evaluated. So does a value to be sent, even if its case does not happen.
/// `send_with` makes the value only when it can be sent, and calls its closure at most once. (If
/// another sender is faster, the value waits like that of `send`. Until the value is made, the case
/// does not count as a waiting sender: on a rendezvous channel `try_recv` finds no value.)
///
/// A value of several kilobytes may leave the select by the arm `recv(rx) -> value => value?`, or
/// is best used inside of its arm by reference. In a build without optimisation every other `?` on
/// a value keeps three copies of it on the stack. The macro itself adds none.
///
/// With `biased;` before the cases, the first possible one happens, in the order of the list:
///
/// ```
/// let (tx, rx) = parcae::channel::channel(8);
/// let (stop, stopped) = parcae::channel::channel::<()>(0);
/// tx.send_all(0..8)?;
/// drop(stop);
/// let first = parcae::select! {
///     biased;
///     recv(stopped) -> _ => "stopped", // takes precedence
///     recv(rx) -> _ => "value",
/// }?;
/// assert_eq!(first, "stopped");
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// ```
/// use parcae::channel::channel;
///
/// let (tx, rx) = channel(1);
/// let mut next = Some("hello");
/// for round in 0..3 {
///     let did = parcae::select! {
///         recv(rx) -> word => word?.len(),
///         offer(tx, &mut next) -> sent => {
///             sent?;
///             0
///         }
///         default => 100,
///     }?;
///     assert_eq!(did, [0, 5, 100][round]);
/// }
/// # Ok::<(), parcae::Error>(())
/// ```
#[macro_export]
macro_rules! select {
    (biased; $($arms:tt)+) => { $crate::__select!(@arms [select_biased] $($arms)+) };
    ($($arms:tt)+) => { $crate::__select!(@arms [select] $($arms)+) };
}

/// The steps of `select!`. Each case gets a variable of its own, because each is introduced in a
/// separate expansion. It is bound by a `match`, whose temporaries live as long as its arm.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    // All arms are parsed.
    (@arms [$run:ident $($arm:tt)*]) => {
        $crate::__select!(@bind $run [$($arm)*] $($arm)*)
    };
    // Binds one more case.
    (@bind $run:ident $all:tt { $case:ident ($($new:tt)*) $how:ident ($pattern:pat) ($body:expr) } $($rest:tt)*) => {
        match $($new)* { mut $case => $crate::__select!(@bind $run $all $($rest)*) }
    };
    // All cases are bound. The match is the value itself: a variable for it would be one more copy
    // of a large value, without optimisation.
    (@bind $run:ident [$({ $case:ident ($($new:tt)*) $how:ident ($pattern:pat) ($body:expr) })*]) => {
        match $crate::__private::$run(&mut [$(&mut $case),*]) {
            ::core::result::Result::Err(error) => {
                ::core::result::Result::<_, $crate::Error>::Err(error)
            }
            ::core::result::Result::Ok(at) => ::core::result::Result::Ok(
                $crate::__select!(@fire at, 0_usize, $({ $case $how ($pattern) ($body) })*)
            ),
        }
    };
    // Runs the arm that was chosen.
    (@fire $at:ident, $n:expr, { $case:ident $how:ident ($pattern:pat) ($body:expr) } $($rest:tt)*) => {
        if $at == $n {
            let $pattern = $crate::__private::$how::finish(&mut $case);
            $body
        } else {
            $crate::__select!(@fire $at, $n + 1, $($rest)*)
        }
    };
    (@fire $at:ident, $n:expr,) => { ::core::unreachable!() };
    // An arm without a pattern.
    (@arms $done:tt $kind:ident => $($rest:tt)*) => {
        $crate::__select!(@arms $done $kind () -> _ => $($rest)*)
    };
    (@arms $done:tt $kind:ident $args:tt => $($rest:tt)*) => {
        $crate::__select!(@arms $done $kind $args -> _ => $($rest)*)
    };
    // Perhaps a value that leaves the select: see `settle.rs`. The mark is passed on twice: once to
    // be compared, and once with the place in the program that an error message shows.
    (@arms $done:tt recv $args:tt -> $value:ident => $same:ident $mark:tt) => {
        $crate::__select!(@leave $mark $done $args $value $same $mark)
    };
    (@arms $done:tt recv $args:tt -> $value:ident => $same:ident $mark:tt, $($rest:tt)*) => {
        $crate::__select!(@leave $mark $done $args $value $same $mark $($rest)*)
    };
    (@leave ? $done:tt $args:tt $value:ident $same:ident $mark:tt $($rest:tt)*) => {
        $crate::__select!(@case $done case recv $args Settle ($value) ({
            #[allow(unused_imports, reason = "if it is the variable of this case")]
            use $crate::__private::Pass as _;
            $crate::__private::Passed::new($same $mark).out()
        }) $($rest)*)
    };
    // No mark at all: the comma after the last arm.
    (@leave , $done:tt $args:tt $value:ident $same:ident $mark:tt) => {
        $crate::__select!(@case $done case recv $args Finish ($value) ($same))
    };
    (@leave $other:tt $done:tt $args:tt $value:ident $same:ident $mark:tt $($rest:tt)*) => {
        $crate::__select!(@case $done case recv $args Finish ($value) ($same $mark) $($rest)*)
    };
    // The ends of an arm.
    (@arms $done:tt $kind:ident $args:tt -> $pattern:pat => $body:block, $($rest:tt)*) => {
        $crate::__select!(@case $done case $kind $args Finish ($pattern) ($body) $($rest)*)
    };
    (@arms $done:tt $kind:ident $args:tt -> $pattern:pat => $body:block $($rest:tt)*) => {
        $crate::__select!(@case $done case $kind $args Finish ($pattern) ($body) $($rest)*)
    };
    (@arms $done:tt $kind:ident $args:tt -> $pattern:pat => $body:expr, $($rest:tt)*) => {
        $crate::__select!(@case $done case $kind $args Finish ($pattern) ($body) $($rest)*)
    };
    (@arms $done:tt $kind:ident $args:tt -> $pattern:pat => $body:expr) => {
        $crate::__select!(@case $done case $kind $args Finish ($pattern) ($body))
    };
    (@arms $done:tt $($rest:tt)+) => {
        ::core::compile_error!(
            "a case of `select!` is written `recv(rx) -> value => ...` or `timeout(time) => ...`: the operation, \
             then `->` and a pattern if there is a value, then `=>` and an expression; a comma after each \
             expression that is no block"
        )
    };
    // The kinds of cases.
    (@case $done:tt $case:ident recv ($rx:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($rx.__select()) $($arm)*)
    };
    (@case $done:tt $case:ident send ($tx:expr, $value:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::SendCase::new(&$tx, $value)) $($arm)*)
    };
    (@case $done:tt $case:ident send_with ($tx:expr, $make:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::send_with(&$tx, $make)) $($arm)*)
    };
    (@case $done:tt $case:ident offer ($tx:expr, $slot:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::SendCase::offer(&$tx, $slot)) $($arm)*)
    };
    (@case $done:tt $case:ident timeout ($time:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::TimeoutCase::new($time)) $($arm)*)
    };
    (@case $done:tt $case:ident deadline ($at:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::DeadlineCase::new($at)) $($arm)*)
    };
    (@case $done:tt $case:ident next ($subscriber:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::ChangeCase::next(&mut $subscriber)) $($arm)*)
    };
    (@case $done:tt $case:ident changed ($watcher:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::ChangeCase::changed(&mut $watcher)) $($arm)*)
    };
    (@case $done:tt $case:ident ended ($task:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::EndedCase::new(&$task)) $($arm)*)
    };
    (@case $done:tt $case:ident join_next ($set:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::JoinNextCase::new(&mut $set)) $($arm)*)
    };
    (@case $done:tt $case:ident cancelled ($token:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::TokenCase::new(&$token)) $($arm)*)
    };
    (@case $done:tt $case:ident default () $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::DefaultCase) $($arm)*)
    };
    (@case $done:tt $case:ident $kind:ident $($arm:tt)*) => {
        ::core::compile_error!(::core::concat!(
            "`", ::core::stringify!($kind),
            "` is no case of `select!`: recv(rx), send(tx, value), send_with(tx, || value), \
             offer(tx, &mut slot), next(subscriber), changed(watcher), ended(task), join_next(set), timeout(time), \
             deadline(instant), cancelled(token) and default are"
        ))
    };
    (@add [$($done:tt)*] $case:ident $new:tt $how:ident ($pattern:pat) ($body:expr) $($rest:tt)*) => {
        $crate::__select!(@arms [$($done)* { $case $new $how ($pattern) ($body) }] $($rest)*)
    };
}
