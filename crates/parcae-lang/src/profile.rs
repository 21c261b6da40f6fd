//! Profiles, and the gate: constructs that the profile of a file does not allow are reported on the
//! tree, before types, in the words of SPEC-027.

use crate::ast::{
    Block, CaseKind, Expr, ExprKind, File, Func, Item, Over, Stmt, StmtKind, TypeExpr, TypeKind,
};
use crate::diagnostic::{Diagnostic, Faults};
use crate::source::Span;

/// The profile of a program: how much of the runtime it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// No concurrency.
    Core,
    /// Nurseries, tasks and channels, within the budget.
    Service,
    /// As `Service`, for trees of supervised tasks.
    Cluster,
    /// Authority is passed explicitly.
    Sovereign,
}

impl Profile {
    /// All profiles, the weakest first.
    pub const ALL: [Profile; 4] =
        [Profile::Core, Profile::Service, Profile::Cluster, Profile::Sovereign];

    /// The name, without its colon.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Core => "core",
            Profile::Service => "service",
            Profile::Cluster => "cluster",
            Profile::Sovereign => "sovereign",
        }
    }

    /// The profile of this name, which may have a colon in front.
    pub fn from_name(name: &str) -> Option<Profile> {
        let name = name.strip_prefix(':').unwrap_or(name);
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }
}

/// Constructs with a least profile. All of the present ones need `:service`.
const FEATURES: [(&str, Profile); 10] = [
    ("async func", Profile::Service),
    ("await", Profile::Service),
    ("nursery", Profile::Service),
    ("spawn", Profile::Service),
    ("async call", Profile::Service),
    ("select", Profile::Service),
    ("channel", Profile::Service),
    ("yield", Profile::Service),
    ("a file", Profile::Service),
    ("a socket", Profile::Service),
];

/// The profile of the file: its directive, or else the default.
pub(crate) fn of_file(file: &File<'_>, default: Profile, faults: &mut Faults) -> Profile {
    let Some(name) = file.profile else { return default };
    let profile = Profile::from_name(name.text).unwrap_or_else(|| {
        let message = format!("there is no profile `{}`", name.text);
        let hint = "the profiles are core, service, cluster and sovereign";
        faults.add(Diagnostic::new("S3006", name.span, message).hint(hint));
        Profile::Service
    });
    if profile == Profile::Sovereign {
        let message = "not supported yet: the profile :sovereign";
        faults.add(Diagnostic::new("S4001", name.span, message).hint("use :service"));
    }
    profile
}

pub(crate) fn gate(file: &File<'_>, profile: Profile, faults: &mut Faults) {
    let mut gate = Gate { profile, has_directive: file.profile.is_some(), faults };
    for item in &file.items {
        match item {
            Item::Func(func) => gate.func(func),
            Item::Struct(shape) => shape.members.iter().for_each(|(_, ty)| gate.ty(ty)),
            Item::Error(_) => {}
        }
    }
}

/// A call of a function that needs authority.
pub(crate) fn gate_call(
    (profile, has_directive): (Profile, bool),
    authority: crate::library::Authority,
    span: Span,
    faults: &mut Faults,
) {
    Gate { profile, has_directive, faults }.need(authority.feature(), span);
}

struct Gate<'f> {
    profile: Profile,
    has_directive: bool,
    faults: &'f mut Faults,
}

impl Gate<'_> {
    fn need(&mut self, feature: &str, span: Span) {
        let least = FEATURES.iter().find(|(name, _)| *name == feature).map(|(_, least)| *least);
        let Some(least) = least.filter(|least| self.profile < *least) else { return };
        let (least, current) = (least.name(), self.profile.name());
        let message =
            format!("{feature} requires :{least} profile or higher (current: :{current})");
        let hint = if self.has_directive {
            format!("change the first line to `{{.profile: {least}.}}`")
        } else {
            format!("add `{{.profile: {least}.}}` as the first line; without it :core is assumed")
        };
        self.faults.add(Diagnostic::new("S3005", span, message).hint(hint));
    }

    fn func(&mut self, func: &Func<'_>) {
        if func.is_async {
            self.need("async func", func.span.to(func.name.span));
        }
        func.params.iter().for_each(|(_, ty)| self.ty(ty));
        func.result.iter().for_each(|ty| self.ty(ty));
        self.block(&func.body);
    }

    fn ty(&mut self, ty: &TypeExpr<'_>) {
        match &ty.kind {
            TypeKind::Name("Channel") | TypeKind::Of("Channel", _) => self.need("channel", ty.span),
            TypeKind::Of("Task", _) => self.need("spawn", ty.span),
            TypeKind::Array(of) | TypeKind::Optional(of) | TypeKind::Of(_, of) => self.ty(of),
            TypeKind::Func(params, result) => {
                params.iter().for_each(|ty| self.ty(ty));
                result.iter().for_each(|ty| self.ty(ty));
            }
            TypeKind::Name(_) | TypeKind::Error => {}
        }
    }

    fn block(&mut self, block: &Block<'_>) {
        block.stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt<'_>) {
        match &stmt.kind {
            StmtKind::Let { ty, value, .. } => {
                ty.iter().for_each(|ty| self.ty(ty));
                self.expr(value);
            }
            StmtKind::Assign { target, value, .. } => {
                self.expr(target);
                self.expr(value);
            }
            StmtKind::Expr(expr) | StmtKind::Fail(expr) | StmtKind::Defer(expr) => self.expr(expr),
            StmtKind::Return(value) => value.iter().for_each(|value| self.expr(value)),
            StmtKind::Yield => self.need("yield", stmt.span),
            StmtKind::Guarded(inner, guard) => {
                self.stmt(inner);
                self.expr(&guard.cond);
            }
            StmtKind::If { arms, otherwise } => {
                for (cond, body) in arms {
                    self.expr(cond);
                    self.block(body);
                }
                otherwise.iter().for_each(|body| self.block(body));
            }
            StmtKind::While { cond, body } => {
                self.expr(cond);
                self.block(body);
            }
            StmtKind::For { over, body, .. } => {
                match over {
                    Over::Range { from, to, .. } => {
                        self.expr(from);
                        self.expr(to);
                    }
                    Over::Each(of) => self.expr(of),
                }
                self.block(body);
            }
            StmtKind::Match { value, arms } => {
                self.expr(value);
                for arm in arms {
                    arm.guard.iter().for_each(|guard| self.expr(guard));
                    self.block(&arm.body);
                }
            }
            StmtKind::Select(cases) => {
                self.need("select", Span { end: stmt.span.start + 6, ..stmt.span });
                for case in cases {
                    match &case.kind {
                        CaseKind::Recv { channel, .. } => self.expr(channel),
                        CaseKind::Send { channel, value } => {
                            self.expr(channel);
                            self.expr(value);
                        }
                        CaseKind::Timeout(time) => self.expr(time),
                        CaseKind::Default => {}
                    }
                    self.block(&case.body);
                }
            }
            StmtKind::Break | StmtKind::Continue | StmtKind::Error => {}
        }
    }

    fn expr(&mut self, expr: &Expr<'_>) {
        let word = |length: u32| Span { end: expr.span.start + length, ..expr.span };
        match &expr.kind {
            ExprKind::Interp(_, parts) | ExprKind::Array(parts) => {
                parts.iter().for_each(|part| self.expr(part));
            }
            ExprKind::Unary(_, inner) | ExprKind::Field(inner, _) | ExprKind::Try(inner) => {
                self.expr(inner);
            }
            ExprKind::Binary(_, left, right)
            | ExprKind::Pipe(left, right)
            | ExprKind::Index(left, right) => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Call(callee, args) => {
                if matches!(callee.kind, ExprKind::Name("channel")) {
                    self.need("channel", callee.span);
                }
                self.expr(callee);
                args.iter().for_each(|arg| self.expr(arg));
            }
            ExprKind::Slice { of, from, to, .. } => {
                self.expr(of);
                self.expr(from);
                self.expr(to);
            }
            ExprKind::Struct(_, fields) => fields.iter().for_each(|(_, value)| self.expr(value)),
            ExprKind::Closure(func) => self.func(func),
            ExprKind::Await(inner) => {
                self.need("await", word(5));
                self.expr(inner);
            }
            ExprKind::Spawn(inner) => {
                self.need("spawn", word(5));
                self.expr(inner);
            }
            ExprKind::Async(inner) => {
                self.need("async call", word(5));
                self.expr(inner);
            }
            ExprKind::Catch(inner, handler) => {
                self.expr(inner);
                self.block(&handler.body);
            }
            ExprKind::Nursery(nursery) => {
                self.need("nursery", word(7));
                nursery.with.iter().for_each(|with| self.expr(with));
                self.block(&nursery.body);
                nursery.catch.iter().for_each(|handler| self.block(&handler.body));
            }
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Str(_)
            | ExprKind::Bool(_)
            | ExprKind::Name(_)
            | ExprKind::Error => {}
        }
    }
}
