//! The adapter to Cranelift: settings, declarations, memory.
//!
//! All functions are declared first, then defined, then made executable together. Beside the
//! functions of the program there are
//!
//! - `enter`: from the host into generated code;
//! - `attend`: the slow path of a check, with a convention that preserves all registers, so that
//!   code around a check need not save any;
//! - a thunk for each function that is used as a value or is the root of a task: it takes the
//!   arguments from memory.
//!
//! | | parameters | results |
//! |---|---|---|
//! | function | words, its parameters | its value if it has one; status |
//! | thunk | words, address of the arguments | value as a word; status |
//! | `enter` | words, thunk, address of the arguments | value as a word; status |
//! | `attend` | words, site | none |

use crate::debug::{self, Symbol};
use crate::engine::{CodeMemory, Enter, Generated};
use crate::translate::{self, Shape};
use crate::words::{FUNCTIONS, at};
use crate::{CompileError, Metering};
use cranelift_codegen::Context;
use cranelift_codegen::ir::{
    AbiParam, FuncRef, Function, InstBuilder, MemFlagsData, Signature, Type, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::isa::unwind::UnwindInfo;
use cranelift_codegen::settings::{self, Configurable, Flags};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module as _, default_libcall_names};
use parcae_interp::Program;
use parcae_interp::engine::Site;
use parcae_ir::{Func, Imm, Module, Opcode, Pos};

/// Longest function, in operations. The time of a code generator grows faster than its input.
const MOST_OPERATIONS: usize = 30_000;
/// Largest frame. A function that calls nothing does not test the stack, so its frame is part of
/// the red zone.
const LARGEST_FRAME: u32 = 8 << 10;

/// Declarations of a program's functions.
pub(crate) struct Backend {
    module: JITModule,
    convention: CallConv,
    /// Functions of the program.
    funcs: Vec<FuncId>,
    /// Functions of the host, as in `FUNCTIONS`.
    host: Vec<FuncId>,
    attend: FuncId,
    #[expect(clippy::vec_box, reason = "generated code has their addresses")]
    sites: Vec<Box<Site>>,
    bytes: usize,
    /// All functions that are defined; their addresses are known at the end.
    symbols: Vec<(FuncId, Symbol)>,
}

/// Functions of the host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Host {
    Operate,
    Attend,
    Settle,
    Fault,
    Catch,
    Resume,
    Closure,
}

fn error(error: impl std::fmt::Display) -> CompileError {
    CompileError::Backend(error.to_string())
}

/// Type of a value in generated code.
pub(crate) fn machine_type(ty: &parcae_ir::Type) -> Type {
    if *ty == parcae_ir::Type::F64 { types::F64 } else { types::I64 }
}

/// Generates code for all functions.
pub(crate) fn generate(
    module: &Module,
    program: &Program,
    metering: Metering,
    unwinder: bool,
) -> Result<Generated, CompileError> {
    let shape = Shape::of(module)?;
    let mut backend = Backend::new(module)?;
    let mut frames = FunctionBuilderContext::new();
    let mut context = backend.module.make_context();
    for (number, func) in module.funcs.iter().enumerate() {
        let operations: usize = func.blocks.iter().map(|block| block.insts.len() + 1).sum();
        if operations > MOST_OPERATIONS {
            let construct = format!("a function of more than {MOST_OPERATIONS} operations");
            return Err(CompileError::NotSupported { construct, func: func.name.clone() });
        }
        let id = backend.funcs[number];
        backend.begin(&mut context, id);
        translate::function(
            &mut backend,
            &mut context.func,
            &mut frames,
            &shape,
            (module, program, number as u32, metering),
        )?;
        backend.define(id, &mut context, &func.name, func.at)?;
    }
    backend.define_attend(&mut context, &mut frames)?;
    let enter = backend.define_enter(&mut context, &mut frames)?;
    let mut thunks = vec![None; module.funcs.len()];
    for (number, func) in module.funcs.iter().enumerate() {
        if shape.is_value[number] {
            let id = backend.define_thunk(&mut context, &mut frames, number, func)?;
            thunks[number] = Some(id);
        }
    }
    backend.module.finalize_definitions().map_err(error)?;
    let address = |id: FuncId| backend.module.get_finalized_function(id);
    let enter = address(enter);
    // SAFETY: `enter` was generated with this signature.
    let enter = unsafe { std::mem::transmute::<*const u8, Enter>(enter) };
    let thunks = thunks.into_iter().map(|id| id.map_or(std::ptr::null(), address)).collect();
    let symbols = std::mem::take(&mut backend.symbols).into_iter();
    let symbols = symbols.map(|(id, symbol)| Symbol { start: address(id).addr(), ..symbol });
    let symbols: Vec<Symbol> = symbols.collect();
    let cie = backend.module.isa().create_systemv_cie();
    let registration = debug::register(&symbols, &module.file, cie, unwinder)?;
    let code = CodeMemory { module: Some(backend.module), bytes: backend.bytes };
    let (_sites, _registration) = (backend.sites, registration);
    Ok(Generated { enter, thunks, _sites, symbols, _registration, code })
}

impl Backend {
    fn new(module: &Module) -> Result<Backend, CompileError> {
        let mut flags = settings::builder();
        let verify = if cfg!(debug_assertions) { "true" } else { "false" };
        for (name, value) in [
            ("opt_level", "speed"),
            ("enable_pinned_reg", "true"),
            ("preserve_frame_pointers", "true"),
            ("is_pic", "false"),
            ("use_colocated_libcalls", "false"),
            ("enable_verifier", verify),
        ] {
            flags.set(name, value).map_err(error)?;
        }
        let isa = cranelift_native::builder().map_err(error)?;
        let isa = isa.finish(Flags::new(flags)).map_err(error)?;
        let convention = isa.default_call_conv();
        let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
        for (name, address) in FUNCTIONS {
            builder.symbol(format!("host.{name}"), address);
        }
        let mut backend = Backend {
            module: JITModule::new(builder),
            convention,
            funcs: Vec::new(),
            host: Vec::new(),
            attend: FuncId::from_u32(0),
            sites: Vec::new(),
            bytes: 0,
            symbols: Vec::new(),
        };
        let word = types::I64;
        let host: [(&[Type], &[Type]); 7] = [
            (&[word, word], &[word]),
            (&[word, word], &[]),
            (&[word, word], &[word]),
            (&[word, word, word], &[]),
            (&[word], &[word]),
            (&[word, word], &[]),
            (&[word, word, word, word], &[word]),
        ];
        for ((name, _), (params, returns)) in FUNCTIONS.iter().zip(host) {
            let signature = backend.signature(params, returns);
            let name = format!("host.{name}");
            let id = backend.module.declare_function(&name, Linkage::Import, &signature);
            backend.host.push(id.map_err(error)?);
        }
        let mut signature = backend.signature(&[word, word], &[]);
        signature.call_conv = CallConv::PreserveAll;
        let id = backend.module.declare_function("attend", Linkage::Local, &signature);
        backend.attend = id.map_err(error)?;
        for (number, func) in module.funcs.iter().enumerate() {
            let params = func.params.iter().map(|param| machine_type(func.ty(*param)));
            let params: Vec<Type> = std::iter::once(word).chain(params).collect();
            let signature = backend.signature(&params, &returns(func));
            let name = format!("{number}.{}", func.name);
            let id = backend.module.declare_function(&name, Linkage::Local, &signature);
            backend.funcs.push(id.map_err(error)?);
        }
        Ok(backend)
    }

    pub(crate) fn signature(&self, params: &[Type], returns: &[Type]) -> Signature {
        let mut signature = Signature::new(self.convention);
        signature.params.extend(params.iter().map(|ty| AbiParam::new(*ty)));
        signature.returns.extend(returns.iter().map(|ty| AbiParam::new(*ty)));
        signature
    }

    /// A function of the program, to call it.
    pub(crate) fn callee(&mut self, number: u32, into: &mut Function) -> FuncRef {
        self.module.declare_func_in_func(self.funcs[number as usize], into)
    }

    /// A function of the host, to call it.
    pub(crate) fn host(&mut self, which: Host, into: &mut Function) -> FuncRef {
        self.module.declare_func_in_func(self.host[which as usize], into)
    }

    /// The slow path of a check, to call it.
    pub(crate) fn attend(&mut self, into: &mut Function) -> FuncRef {
        self.module.declare_func_in_func(self.attend, into)
    }

    /// The address of a site, which the code may refer to as long as it exists.
    pub(crate) fn site(&mut self, site: Site) -> i64 {
        let site = Box::new(site);
        let address = (&raw const *site).addr() as i64;
        self.sites.push(site);
        address
    }

    fn begin(&self, context: &mut Context, id: FuncId) {
        self.module.clear_context(context);
        let declared = self.module.declarations().get_function_decl(id);
        context.func.signature = declared.signature.clone();
    }

    fn define(
        &mut self,
        id: FuncId,
        context: &mut Context,
        name: &str,
        at: Pos,
    ) -> Result<(), CompileError> {
        self.module.define_function(id, context).map_err(error)?;
        if let Some(code) = context.compiled_code() {
            let len = code.buffer.data().len();
            self.bytes += len;
            let unwind = match code.create_unwind_info(self.module.isa()).map_err(error)? {
                Some(UnwindInfo::SystemV(unwind)) => Some(unwind),
                _ => None,
            };
            let mut rows: Vec<(u32, Pos)> = Vec::new();
            for piece in code.buffer.get_srclocs_sorted() {
                let Some(at) = debug::place(piece.loc) else { continue };
                if rows.last().is_none_or(|(_, last)| *last != at) {
                    rows.push((piece.start, at));
                }
            }
            // The place in memory is not known yet.
            let symbol = Symbol { name: name.to_owned(), at, start: 0, len, rows, unwind };
            self.symbols.push((id, symbol));
            let frame = code.buffer.frame_layout().map_or(0, |frame| frame.frame_to_fp_offset);
            if frame > LARGEST_FRAME {
                let construct = format!("a function with a frame of {frame} bytes");
                return Err(CompileError::NotSupported { construct, func: name.to_owned() });
            }
        }
        Ok(())
    }

    pub(crate) fn finish(&self, builder: FunctionBuilder<'_>) {
        builder.finalize(self.module.target_config());
    }

    fn define_attend(
        &mut self,
        context: &mut Context,
        frames: &mut FunctionBuilderContext,
    ) -> Result<(), CompileError> {
        self.begin(context, self.attend);
        let mut builder = FunctionBuilder::new(&mut context.func, frames);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        let args = builder.block_params(block).to_vec();
        let host = self.host(Host::Attend, builder.func);
        builder.ins().call(host, &args);
        builder.ins().return_(&[]);
        builder.seal_all_blocks();
        self.finish(builder);
        self.define(self.attend, context, "attend", Pos::default())
    }

    fn define_enter(
        &mut self,
        context: &mut Context,
        frames: &mut FunctionBuilderContext,
    ) -> Result<FuncId, CompileError> {
        let word = types::I64;
        let signature = self.signature(&[word, word, word], &[word, word]);
        let id = self.module.declare_function("enter", Linkage::Local, &signature);
        let id = id.map_err(error)?;
        self.begin(context, id);
        let mut builder = FunctionBuilder::new(&mut context.func, frames);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        let [words, thunk, args] = builder.block_params(block) else {
            unreachable!("three parameters")
        };
        let (words, thunk, args) = (*words, *thunk, *args);
        let flags = MemFlagsData::trusted();
        let saved = builder.ins().get_pinned_reg(word);
        let left = builder.ins().load(word, flags, words, at::LEFT);
        builder.ins().set_pinned_reg(left);
        let signature = builder.import_signature(self.signature(&[word, word], &[word, word]));
        let call = builder.ins().call_indirect(signature, thunk, &[words, args]);
        let results = builder.inst_results(call).to_vec();
        let left = builder.ins().get_pinned_reg(word);
        builder.ins().store(flags, left, words, at::LEFT);
        builder.ins().set_pinned_reg(saved);
        builder.ins().return_(&results);
        builder.seal_all_blocks();
        self.finish(builder);
        self.define(id, context, "enter", Pos::default())?;
        Ok(id)
    }

    fn define_thunk(
        &mut self,
        context: &mut Context,
        frames: &mut FunctionBuilderContext,
        number: usize,
        func: &Func,
    ) -> Result<FuncId, CompileError> {
        let word = types::I64;
        let signature = self.signature(&[word, word], &[word, word]);
        let name = format!("{number}.thunk");
        let id = self.module.declare_function(&name, Linkage::Local, &signature).map_err(error)?;
        self.begin(context, id);
        let mut builder = FunctionBuilder::new(&mut context.func, frames);
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        let (words, from) = (builder.block_params(block)[0], builder.block_params(block)[1]);
        let mut args = vec![words];
        for (at, param) in func.params.iter().enumerate() {
            let ty = machine_type(func.ty(*param));
            args.push(builder.ins().load(ty, MemFlagsData::trusted(), from, 8 * at as i32));
        }
        let callee = self.callee(number as u32, builder.func);
        let call = builder.ins().call(callee, &args);
        let mut results = builder.inst_results(call).to_vec();
        if results.len() == 1 {
            results.insert(0, builder.ins().iconst(word, 0));
        }
        if builder.func.dfg.value_type(results[0]) == types::F64 {
            results[0] = builder.ins().bitcast(word, MemFlagsData::new(), results[0]);
        }
        builder.ins().return_(&results);
        builder.seal_all_blocks();
        self.finish(builder);
        self.define(id, context, &format!("{} (entry)", func.name), Pos::default())?;
        Ok(id)
    }
}

/// Types of the words that a function returns.
fn returns(func: &Func) -> Vec<Type> {
    match &func.result {
        parcae_ir::Type::Void => vec![types::I64],
        parcae_ir::Type::Result(of, _) => vec![machine_type(of), types::I64],
        ty => vec![machine_type(ty), types::I64],
    }
}

/// The function that an operation names, if it does not call it.
pub(crate) fn function_value(inst: &parcae_ir::Inst) -> Option<u32> {
    match (&inst.imm, inst.op) {
        (Imm::Func(_), Opcode::Call) => None,
        (Imm::Func(id), _) => Some(*id),
        _ => None,
    }
}
