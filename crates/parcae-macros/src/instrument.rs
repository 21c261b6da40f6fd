//! The walk through an item that inserts the calls.
//!
//! A function is walked in one pass. [`Instrument`] descends through statements and expressions,
//! and stops at code that this function does not run: items, which are functions of their own, and
//! code that the compiler evaluates, namely types, generic arguments, array lengths and `const`
//! blocks. The empty hooks of [`VisitMut`] mark these boundaries.
//!
//! # Names and places
//!
//! The meter's name has the span `mixed_site`: all insertions of one expansion mean the same
//! variable, and code of the user can neither see nor shadow it. A closure needs no new name,
//! because its own meter shadows that of the function around it.
//!
//! A tick has the span of its loop's keyword, so that a backtrace, and a panic's location, name the
//! loop that was stopped. An entry has the span of the attribute: a missing runtime is reported
//! there, and a backtrace names the function anyway.
//!
//! # Errors
//!
//! All of them are collected, so that one build names every function that has to change. An item
//! with an error is emitted as it was written (see `expand`): otherwise every use of it would be
//! reported as well.

use std::mem;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Block, Error, Expr, ExprAsync, ExprBlock, ExprClosure, ExprConst, ExprForLoop,
    ExprLoop, ExprRepeat, ExprWhile, GenericArgument, Ident, ImplItem, Item, Path, Result,
    Signature, Stmt, TraitItem, TraitItemFn, Type, parse_quote_spanned,
};

const ASYNC_FN: &str = "an `async fn` cannot be budgeted: async code does not run on a fiber's \
    own stack, and the task that polls it would be charged; use a plain function";
const ASYNC_LOOP: &str = "a loop in async code cannot be budgeted: async code does not run on a \
    fiber's own stack, and the task that polls it would be charged; use a plain function";
const CONST_FN: &str = "a `const fn` cannot be budgeted: the compiler may evaluate it, where \
    there is no budget; use a plain function";
const NO_BODY: &str = "a function without a body cannot be budgeted: annotate the functions that \
    implement it";
const NO_MODULE: &str = "only a module with its body in place can be budgeted: annotate the \
    functions in its file";
const NO_FUNCTION: &str = "`budgeted` applies to functions, and to `impl` blocks, traits and inline \
    modules with functions";

/// Inserts the calls into `item`, the whole item below the attribute.
pub(crate) fn item(mut item: Item, runtime: Path) -> Result<TokenStream> {
    match &item {
        Item::Fn(_) | Item::Impl(_) | Item::Trait(_) | Item::Mod(_) => {}
        // Parsed as an item, a method without a body is `Verbatim`.
        Item::Verbatim(tokens) if syn::parse2::<TraitItemFn>(tokens.clone()).is_ok() => {
            return Err(Error::new_spanned(tokens, NO_BODY));
        }
        other => return Err(Error::new_spanned(other, NO_FUNCTION)),
    }
    let mut instrument = Instrument { runtime, in_async: false, error: None };
    instrument.item(&mut item);
    match instrument.error {
        None => Ok(item.into_token_stream()),
        Some(error) => Err(error),
    }
}

/// The state of one expansion.
struct Instrument {
    runtime: Path,
    /// Whether the current expression is async code.
    in_async: bool,
    /// All errors so far.
    error: Option<Error>,
}

impl Instrument {
    /// Walks through the functions of `item`. Items without functions are left alone.
    fn item(&mut self, item: &mut Item) {
        match item {
            Item::Fn(item) => self.function(&item.attrs, &item.sig, &mut item.block),
            Item::Impl(block) if !is_budgeted(&block.attrs) => {
                for item in &mut block.items {
                    if let ImplItem::Fn(item) = item {
                        self.function(&item.attrs, &item.sig, &mut item.block);
                    }
                }
            }
            Item::Trait(definition) if !is_budgeted(&definition.attrs) => {
                for item in &mut definition.items {
                    if let TraitItem::Fn(TraitItemFn { attrs, sig, default: Some(body), .. }) = item
                    {
                        self.function(attrs, sig, body);
                    }
                }
            }
            Item::Mod(module) if !is_budgeted(&module.attrs) => match &mut module.content {
                Some((_, items)) => items.iter_mut().for_each(|item| self.item(item)),
                None => self.refuse(module.ident.span(), NO_MODULE),
            },
            _ => {}
        }
    }

    fn function(&mut self, attributes: &[Attribute], signature: &Signature, body: &mut Block) {
        if is_budgeted(attributes) {
            return;
        }
        if let Some(token) = signature.constness {
            return self.refuse(token.span, CONST_FN);
        }
        if let Some(token) = signature.asyncness {
            return self.refuse(token.span, ASYNC_FN);
        }
        self.visit_block_mut(body);
        prepend(body, self.enter());
    }

    /// The entry of a function or closure.
    fn enter(&self) -> Stmt {
        let (meter, runtime) = (meter(), &self.runtime);
        // SAFETY: for the generated code: the meter is a local variable of a function that is not
        // async, so it stays on the stack of the task that entered it.
        parse_quote_spanned!(Span::mixed_site()=> let #meter = unsafe { #runtime::__private::enter() };)
    }

    /// Charges each iteration of the loop at `place`.
    fn back_edge(&mut self, place: Span, body: &mut Block) {
        if self.in_async {
            return self.refuse(place, ASYNC_LOOP);
        }
        let meter = meter();
        prepend(body, parse_quote_spanned!(place=> #meter.tick();));
    }

    fn refuse(&mut self, place: Span, message: &str) {
        let error = Error::new(place, message);
        match &mut self.error {
            None => self.error = Some(error),
            Some(first) => first.combine(error),
        }
    }
}

impl VisitMut for Instrument {
    fn visit_expr_for_loop_mut(&mut self, expr: &mut ExprForLoop) {
        visit_mut::visit_expr_for_loop_mut(self, expr);
        self.back_edge(expr.for_token.span, &mut expr.body);
    }

    fn visit_expr_while_mut(&mut self, expr: &mut ExprWhile) {
        visit_mut::visit_expr_while_mut(self, expr);
        self.back_edge(expr.while_token.span, &mut expr.body);
    }

    fn visit_expr_loop_mut(&mut self, expr: &mut ExprLoop) {
        visit_mut::visit_expr_loop_mut(self, expr);
        self.back_edge(expr.loop_token.span, &mut expr.body);
    }

    fn visit_expr_closure_mut(&mut self, closure: &mut ExprClosure) {
        let around = self.in_async;
        self.in_async |= closure.asyncness.is_some();
        self.visit_expr_mut(&mut closure.body);
        if !self.in_async {
            prepend(body_of(closure), self.enter());
        }
        self.in_async = around;
    }

    fn visit_expr_async_mut(&mut self, expr: &mut ExprAsync) {
        let around = mem::replace(&mut self.in_async, true);
        visit_mut::visit_expr_async_mut(self, expr);
        self.in_async = around;
    }

    /// The compiler evaluates the length.
    fn visit_expr_repeat_mut(&mut self, expr: &mut ExprRepeat) {
        self.visit_expr_mut(&mut expr.expr);
    }

    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}
    fn visit_generic_argument_mut(&mut self, _: &mut GenericArgument) {}
    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
}

/// The name of the variable that holds the meter.
fn meter() -> Ident {
    Ident::new("__parcae_meter", Span::mixed_site())
}

/// Whether the item has its own `budgeted` attribute, which is expanded later.
fn is_budgeted(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter_map(|attribute| attribute.path().segments.last())
        .any(|segment| segment.ident == "budgeted")
}

/// Makes `first` the first statement that runs. Items stay in front of it: they do not run, and
/// lints expect them there.
fn prepend(block: &mut Block, first: Stmt) {
    let items = block.stmts.iter().take_while(|statement| matches!(statement, Stmt::Item(_)));
    block.stmts.insert(items.count(), first);
}

/// The block that `closure` runs. An expression becomes the last one of a new block.
///
/// The block is built, not quoted and parsed: `|x| match x { … } - 1` would be parsed as two
/// statements, while printing the tree adds the necessary parentheses.
fn body_of(closure: &mut ExprClosure) -> &mut Block {
    if !matches!(*closure.body, Expr::Block(_)) {
        let mut block: ExprBlock = parse_quote_spanned!(Span::mixed_site()=> {});
        let value = mem::replace(&mut *closure.body, Expr::PLACEHOLDER);
        block.block.stmts.push(Stmt::Expr(value, None));
        *closure.body = Expr::Block(block);
    }
    match &mut *closure.body {
        Expr::Block(body) => &mut body.block,
        _ => unreachable!("it is a block by now"),
    }
}
