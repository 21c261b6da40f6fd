//! The macro for a fixed list of cases.

/// Waits for the first of several things, and does what belongs to it.
///
/// | case | happens when | gives |
/// |---|---|---|
/// | `recv(rx) -> v => …` | there is a value, or the channel is closed and empty | `Result<T, RecvError>` |
/// | `send(tx, value) -> r => …` | there is room, or the channel is closed | `Result<(), SendError<T>>` |
/// | `offer(tx, &mut slot) -> r => …` | as `send`, of what is in an `Option`; it stays there if another case happens | the same |
/// | `next(subscriber) -> v => …` | a broadcast has another value, or is closed | `Result<T, RecvError>` |
/// | `changed(watcher) -> v => …` | what is watched has changed, or is closed | `Result<Arc<T>, RecvError>` |
/// | `ended(task) => …` | the task of a handle has ended: joining does not wait | |
/// | `timeout(time) => …` | the time has passed | |
/// | `deadline(instant) => …` | it is as late as that by [`time::now`](crate::time::now) | |
/// | `cancelled(token) -> why => …` | the token is cancelled | [`CancelReason`](crate::CancelReason) |
/// | `default => …` | nothing else is possible at once | |
///
/// The whole is a [`Result`](crate::Result): of what the chosen case evaluates to, or an error if the
/// task was cancelled or has no budget left, in which case none has happened. `?`, `return`, `break` and `continue` in a
/// case are those of the code around it. See [`select`](mod@crate::select) for what is guaranteed.
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
    ($($arms:tt)+) => { $crate::__select!(@arms [] $($arms)+) };
}

/// The steps of `select!`. Each case gets a variable, which is another one each time because it is
/// introduced in another expansion.
#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    // All arms are read.
    (@arms [$({ $case:ident ($($new:tt)*) ($pattern:pat) ($body:expr) })*]) => {{
        $(let mut $case = $($new)*;)*
        #[allow(unreachable_code)] // all cases may leave
        let result = match $crate::__private::select(&mut [$(&mut $case),*]) {
            ::core::result::Result::Err(error) => {
                ::core::result::Result::<_, $crate::Error>::Err(error)
            }
            ::core::result::Result::Ok(at) => ::core::result::Result::Ok(
                $crate::__select!(@fire at, 0_usize, $({ $case ($pattern) ($body) })*)
            ),
        };
        result
    }};
    // What happens in the arm that was chosen.
    (@fire $at:ident, $n:expr, { $case:ident ($pattern:pat) ($body:expr) } $($rest:tt)*) => {
        if $at == $n {
            let $pattern = $case.finish();
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
    // The ends of an arm.
    (@arms $done:tt $kind:ident $args:tt -> $pattern:pat => $body:block, $($rest:tt)*) => {
        $crate::__select!(@case $done case $kind $args ($pattern) ($body) $($rest)*)
    };
    (@arms $done:tt $kind:ident $args:tt -> $pattern:pat => $body:block $($rest:tt)*) => {
        $crate::__select!(@case $done case $kind $args ($pattern) ($body) $($rest)*)
    };
    (@arms $done:tt $kind:ident $args:tt -> $pattern:pat => $body:expr, $($rest:tt)*) => {
        $crate::__select!(@case $done case $kind $args ($pattern) ($body) $($rest)*)
    };
    (@arms $done:tt $kind:ident $args:tt -> $pattern:pat => $body:expr) => {
        $crate::__select!(@case $done case $kind $args ($pattern) ($body))
    };
    // The kinds of cases.
    (@case $done:tt $case:ident recv ($rx:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::RecvCase::new(&$rx)) $($arm)*)
    };
    (@case $done:tt $case:ident send ($tx:expr, $value:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::SendCase::new(&$tx, $value)) $($arm)*)
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
        $crate::__select!(@add $done $case ($crate::__private::BellCase::next(&mut $subscriber)) $($arm)*)
    };
    (@case $done:tt $case:ident changed ($watcher:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::BellCase::changed(&mut $watcher)) $($arm)*)
    };
    (@case $done:tt $case:ident ended ($task:expr $(,)?) $($arm:tt)*) => {
        $crate::__select!(@add $done $case ($crate::__private::EndedCase::new(&$task)) $($arm)*)
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
            "` is no case of `select!`: recv(rx), send(tx, value), offer(tx, &mut slot), \
             next(subscriber), changed(watcher), ended(task), timeout(time), deadline(instant), \
             cancelled(token) and default are"
        ))
    };
    (@add [$($done:tt)*] $case:ident $new:tt ($pattern:pat) ($body:expr) $($rest:tt)*) => {
        $crate::__select!(@arms [$($done)* { $case $new ($pattern) ($body) }] $($rest)*)
    };
}
