//! Tokens.

use crate::api::nursery::Argument;
use crate::decl::{Int, c_api};
use crate::fault::{Fault, reason_code};
use crate::global::ROOT;
use crate::objects::{Thing, ThingKind, TokenRef, find};
use crate::types::*;
use parcae::CancelToken;
use std::ffi::c_void;
use std::sync::{Arc, PoisonError};

fn insert(token: CancelToken) -> Result<*mut Token, Fault> {
    let token = TokenRef { token, callbacks: Default::default() };
    Ok(ROOT.objects.insert(Thing::Token(Arc::new(token)))?.cast())
}

c_api! {
    /// Creates a token without a parent.
    fn janus_cancel_token_create() -> *mut Token {
        insert(CancelToken::new())
    }

    /// Creates a token that is cancelled with its parent.
    fn janus_cancel_token_child(parent: *mut Token) -> *mut Token {
        insert(find!(parent, Token).token.child())
    }

    /// Whether the token was cancelled: 1 or 0. An invalid handle counts as cancelled, so that no
    /// loop waits for it.
    fn janus_cancel_token_is_cancelled(token: *mut Token) -> Int {
        match ROOT.objects.get(token, ThingKind::Token) {
            Ok(Thing::Token(token)) => Ok(Int(token.token.is_cancelled().into())),
            _ => Ok(Int(1)),
        }
    }

    /// The reason of the cancellation: PARCAE_NOT_CANCELLED, PARCAE_EXPLICIT and so on; -1 for an
    /// invalid handle.
    fn parcae_cancel_token_reason(token: *mut Token) -> Int {
        Ok(Int(reason_code(find!(token, Token).token.reason())))
    }

    /// Cancels the token and all tokens below it.
    fn janus_cancel_token_cancel(token: *mut Token) -> () {
        find!(token, Token).token.cancel();
        Ok(())
    }

    /// Calls a function once when the token is cancelled, on the thread that cancels it;
    /// immediately if it was cancelled before. Removed when the token is destroyed. The function
    /// must not wait. 0 or -1.
    fn parcae_cancel_token_on_cancel(token: *mut Token, callback: CancelFn, arg: *mut c_void) -> Int {
        let callback = callback.ok_or_else(|| Fault::new(E_NULL, "a function is required, not NULL"))?;
        let token = find!(token, Token);
        let arg = Argument::new(arg);
        let on_cancel = token.token.on_cancel(move |reason| {
            // SAFETY: the caller's.
            unsafe { callback(arg.get(), reason_code(Some(reason))) };
        });
        token.callbacks.lock().unwrap_or_else(PoisonError::into_inner).push(on_cancel);
        Ok(Int(0))
    }

    /// Ends the handle. Cancellations stay in effect.
    fn janus_cancel_token_destroy(token: *mut Token) -> () {
        drop(ROOT.objects.remove(token, ThingKind::Token)?);
        Ok(())
    }
}
