//! The syntax of another library's `select!`.

fn main() {
    let (_tx, rx) = parcae::channel::channel::<u8>(1);
    let _ = parcae::select! {
        //~ error: a case of `select!` is written `recv(rx) -> value => ...`
        value = recv(rx) => drop(value),
    };
}
