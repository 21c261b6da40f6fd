//! `#[test]`: a test under the lab.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, ItemFn, LitInt, Path, Result, Token, parse_quote};

/// The arguments of the attribute.
pub(crate) struct TestArguments {
    schedules: Option<LitInt>,
    runtime: Path,
}

impl Parse for TestArguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let (mut schedules, mut runtime) = (None, parse_quote!(::parcae));
        while !input.is_empty() {
            let name = input.call(Ident::parse_any)?;
            input.parse::<Token![=]>()?;
            if name == "schedules" {
                schedules = Some(input.parse::<LitInt>()?);
            } else if name == "crate" {
                runtime = input.call(Path::parse_mod_style)?;
            } else {
                let message = format!(
                    "unknown argument `{name}`: `test` takes `schedules = number` and `crate = path`"
                );
                return Err(Error::new(name.span(), message));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self { schedules, runtime })
    }
}

/// The test without arguments that runs the function under the lab, and once on threads.
pub(crate) fn expand(arguments: &TestArguments, function: &ItemFn) -> Result<TokenStream> {
    let ItemFn { attrs, vis, sig, .. } = function;
    if sig.inputs.len() != 1 {
        let message =
            "a test takes the context of its task: `fn name(cx: &Cx) -> parcae::Result<()>`";
        return Err(Error::new_spanned(&sig.ident, message));
    }
    if let Some(asyncness) = &sig.asyncness {
        return Err(Error::new_spanned(asyncness, "a test is a function of a task, not async"));
    }
    let (name, runtime) = (&sig.ident, &arguments.runtime);
    let schedules = match &arguments.schedules {
        Some(number) => quote!(::core::option::Option::Some(#number)),
        None => quote!(::core::option::Option::None),
    };
    let mut inner = function.clone();
    inner.attrs.clear();
    inner.vis = syn::Visibility::Inherited;
    Ok(quote! {
        #(#attrs)*
        #[::core::prelude::v1::test]
        #vis fn #name() {
            #inner
            #runtime::__private::test(#schedules, #name)
        }
    })
}
