//! The arguments of the attribute: nothing, or `crate = path`.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, Path, Result, Token, parse_quote_spanned};

/// The arguments of the attribute.
pub(crate) struct Arguments {
    /// The crate or module whose `__private` is called.
    pub(crate) runtime: Path,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut runtime = None;
        while !input.is_empty() {
            let name = input.call(Ident::parse_any)?;
            if name != "crate" {
                let message =
                    format!("unknown argument `{name}`: `budgeted` takes only `crate = path`");
                return Err(Error::new(name.span(), message));
            }
            if runtime.is_some() {
                return Err(Error::new(name.span(), "`crate` is given twice"));
            }
            input.parse::<Token![=]>()?;
            runtime = Some(input.call(Path::parse_mod_style)?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        // The span is the attribute's: that is where a missing dependency is reported.
        let runtime = runtime.unwrap_or_else(|| parse_quote_spanned!(Span::call_site()=> ::parcae));
        Ok(Self { runtime })
    }
}
