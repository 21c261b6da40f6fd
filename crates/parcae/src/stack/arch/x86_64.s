# Context switch for x86_64, System V ABI. Assembled into the library by
# `global_asm!` and, unchanged, by any C compiler (the harness in tests/parcae_stacks).
#
# The contract is CONTEXT-SWITCH-INVARIANTS.md in this folder; x86_64.rs pins
# the offsets below from the Rust side at compile time.
#
#   Context                     A suspended context's stack
#   +0   sp   ───────────────►  sp + 0   address where it resumes
#   +8   rbx                    sp + 8   the frame of the switch's caller
#   +16  rbp                    …
#   +24  r12
#   +32  r13                    A new fiber's stack
#   +40  r14                    sp + 0   janus_fiber_entry     sp is 16-aligned
#   +48  r15                    sp + 8   cleanup function
#                               sp + 16  top of the usable stack

    .pushsection .text.janus_context, "ax", @progbits

# void janus_context_switch(Context *from /* rdi */, const Context *to /* rsi */)
#
# Unwind information is right between any two instructions: until rsp changes
# this is a leaf function that `from` called; from then on it is a leaf function
# that `to` called, whose registers are still in memory at rsi.
    .p2align 4
    .globl  janus_context_switch
    .hidden janus_context_switch
    .type   janus_context_switch, @function
janus_context_switch:
    .cfi_startproc
    movq    %rbx, 8(%rdi)
    movq    %rbp, 16(%rdi)
    movq    %r12, 24(%rdi)
    movq    %r13, 32(%rdi)
    movq    %r14, 40(%rdi)
    movq    %r15, 48(%rdi)
    movq    %rsp, 0(%rdi)           # `from` is complete: it can be resumed now

    movq    0(%rsi), %rsp           # on the other stack from here on
    # Each line: DW_CFA_expression, register, length, DW_OP_breg4 (rsi), offset.
    # "The caller's value of this register is in memory at rsi + offset."
    .cfi_escape 0x10, 3, 2, 0x74, 8         # rbx
    .cfi_escape 0x10, 6, 2, 0x74, 16        # rbp
    .cfi_escape 0x10, 12, 2, 0x74, 24       # r12
    .cfi_escape 0x10, 13, 2, 0x74, 32       # r13
    .cfi_escape 0x10, 14, 2, 0x74, 40       # r14
    .cfi_escape 0x10, 15, 2, 0x74, 48       # r15
    movq    8(%rsi), %rbx
    .cfi_same_value %rbx
    movq    16(%rsi), %rbp
    .cfi_same_value %rbp
    movq    24(%rsi), %r12
    .cfi_same_value %r12
    movq    32(%rsi), %r13
    .cfi_same_value %r13
    movq    40(%rsi), %r14
    .cfi_same_value %r14
    movq    48(%rsi), %r15
    .cfi_same_value %r15

    # `ret`, in two steps. The processor's return predictor expects the address
    # that our own caller pushed, which is wrong at every switch; an indirect
    # jump is predicted by where this switch went last time. Measured: 1.9 ns a
    # switch this way, 10 ns with `ret`.
    popq    %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register %rip, %rcx
    jmpq    *%rcx
    .cfi_endproc
    .size   janus_context_switch, . - janus_context_switch

# The first instruction of every fiber; reached from janus_context_switch only.
#   r12 = entry function, r13 = its argument, rbp = 0, return address = cleanup.
#
# This is the outermost frame: its caller is marked undefined for DWARF
# unwinders, and rbp = 0 ends the chain for frame-pointer walkers.
    .p2align 4
    .globl  janus_fiber_entry
    .hidden janus_fiber_entry
    .type   janus_fiber_entry, @function
    .cfi_startproc
    .cfi_undefined %rip
    nop                             # unwinders look up "return address - 1", which
                                    # for a fiber that never ran is this byte
janus_fiber_entry:
    pushq   %rbp                    # 0: end of the frame-pointer chain; aligns rsp
    .cfi_adjust_cfa_offset 8
    movq    %rsp, %rbp
    .cfi_def_cfa_register %rbp
    movq    %r13, %rdi
    callq   *%r12                   # entry(argument)
    movq    %r13, %rdi
    popq    %rbp
    .cfi_def_cfa %rsp, 8
    popq    %rax                    # the cleanup function …
    .cfi_adjust_cfa_offset -8
    callq   *%rax                   # … called, not returned to, for its alignment
    ud2                             # cleanup never returns
    .cfi_endproc
    .size   janus_fiber_entry, . - janus_fiber_entry

# void janus_context_observe(const Context *ctx /* rdi */,
#                            void (*visit)(void *) /* rsi */, void *arg /* rdx */)
#
# Calls visit(arg) on the caller's stack, but tells unwinders that the caller is
# the suspended context `ctx`: a backtrace taken inside `visit` goes on in the
# frames of that context. `visit` must not unwind, and `ctx` must stay suspended.
    .p2align 4
    .globl  janus_context_observe
    .hidden janus_context_observe
    .type   janus_context_observe, @function
janus_context_observe:
    .cfi_startproc
    pushq   %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    movq    %rdi, %rbx
    # DW_CFA_def_cfa_expression: *(rbx + 0) + 8, the caller's sp once `ctx` goes
    # on; its return address is then at cfa - 8, where the default rule looks.
    .cfi_escape 0x0f, 5, 0x73, 0, 0x06, 0x23, 8
    .cfi_escape 0x10, 3, 2, 0x73, 8         # rbx
    .cfi_escape 0x10, 6, 2, 0x73, 16        # rbp
    .cfi_escape 0x10, 12, 2, 0x73, 24       # r12
    .cfi_escape 0x10, 13, 2, 0x73, 32       # r13
    .cfi_escape 0x10, 14, 2, 0x73, 40       # r14
    .cfi_escape 0x10, 15, 2, 0x73, 48       # r15
    movq    %rdx, %rdi
    callq   *%rsi
    popq    %rbx
    .cfi_def_cfa %rsp, 8
    .cfi_same_value %rbx
    .cfi_same_value %rbp
    .cfi_same_value %r12
    .cfi_same_value %r13
    .cfi_same_value %r14
    .cfi_same_value %r15
    retq
    .cfi_endproc
    .size   janus_context_observe, . - janus_context_observe

    .popsection
    .pushsection .note.GNU-stack, "", @progbits
    .popsection
