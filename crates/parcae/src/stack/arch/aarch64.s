// Context switch for aarch64, AAPCS64. Assembled into the library by
// `global_asm!` and, unchanged, by any C compiler (the harness in tests/parcae_stacks).
//
// The contract is CONTEXT-SWITCH-INVARIANTS.md in this folder; aarch64.rs pins
// the offsets below from the Rust side at compile time.
//
//   Context                     A suspended context's stack
//   +0   sp   ───────────────►  sp + 0   the frame of the switch's caller
//   +8   x19                    …
//   …    …
//   +80  x28                    A new fiber's stack, and its registers
//   +88  x29  frame pointer     sp + 0   cleanup function      sp is 16-aligned
//   +96  x30  resume address    sp + 8   0
//   +104 d8                     sp + 16  top of the usable stack
//   …    …                      x19 = entry function   x29 = 0
//   +160 d15                    x20 = its argument     x30 = janus_fiber_entry
//
// Of v8–v15 a callee preserves the low halves only: d8–d15 are all there is.

    .pushsection .text.janus_context, "ax", %progbits

// void janus_context_switch(Context *from /* x0 */, const Context *to /* x1 */)
//
// Unwind information is right between any two instructions: until sp changes
// this is a leaf function that `from` called; from then on it is a leaf function
// that `to` called, whose registers, the return address among them, are still in
// memory at x1.
    .p2align 4
    .globl  janus_context_switch
    .hidden janus_context_switch
    .type   janus_context_switch, %function
janus_context_switch:
    .cfi_startproc
    hint    #34                     // bti c: may be called through a pointer
    stp     x19, x20, [x0, #8]
    stp     x21, x22, [x0, #24]
    stp     x23, x24, [x0, #40]
    stp     x25, x26, [x0, #56]
    stp     x27, x28, [x0, #72]
    stp     x29, x30, [x0, #88]
    stp     d8, d9, [x0, #104]
    stp     d10, d11, [x0, #120]
    stp     d12, d13, [x0, #136]
    stp     d14, d15, [x0, #152]
    mov     x9, sp
    str     x9, [x0, #0]            // `from` is complete for this thread; another
                                    // may resume it after a release of ours only

    ldr     x9, [x1, #0]
    mov     sp, x9                  // on the other stack from here on
    // Each line: DW_CFA_expression, register, length, DW_OP_breg1 (x1), offset.
    // "The caller's value of this register is in memory at x1 + offset." Offsets
    // are signed LEB128: from 64 on they take two bytes, 0x80 + low 7 bits first.
    .cfi_escape 0x10, 19, 2, 0x71, 8        // x19
    .cfi_escape 0x10, 20, 2, 0x71, 16       // x20
    .cfi_escape 0x10, 21, 2, 0x71, 24       // x21
    .cfi_escape 0x10, 22, 2, 0x71, 32       // x22
    .cfi_escape 0x10, 23, 2, 0x71, 40       // x23
    .cfi_escape 0x10, 24, 2, 0x71, 48       // x24
    .cfi_escape 0x10, 25, 2, 0x71, 56       // x25
    .cfi_escape 0x10, 26, 3, 0x71, 0xc0, 0  // x26: 64
    .cfi_escape 0x10, 27, 3, 0x71, 0xc8, 0  // x27: 72
    .cfi_escape 0x10, 28, 3, 0x71, 0xd0, 0  // x28: 80
    .cfi_escape 0x10, 29, 3, 0x71, 0xd8, 0  // x29: 88
    .cfi_escape 0x10, 30, 3, 0x71, 0xe0, 0  // x30: 96, the return address
    .cfi_escape 0x10, 72, 3, 0x71, 0xe8, 0  // d8: 104
    .cfi_escape 0x10, 73, 3, 0x71, 0xf0, 0  // d9: 112
    .cfi_escape 0x10, 74, 3, 0x71, 0xf8, 0  // d10: 120
    .cfi_escape 0x10, 75, 3, 0x71, 0x80, 1  // d11: 128
    .cfi_escape 0x10, 76, 3, 0x71, 0x88, 1  // d12: 136
    .cfi_escape 0x10, 77, 3, 0x71, 0x90, 1  // d13: 144
    .cfi_escape 0x10, 78, 3, 0x71, 0x98, 1  // d14: 152
    .cfi_escape 0x10, 79, 3, 0x71, 0xa0, 1  // d15: 160
    ldp     x19, x20, [x1, #8]
    .cfi_same_value x19
    .cfi_same_value x20
    ldp     x21, x22, [x1, #24]
    .cfi_same_value x21
    .cfi_same_value x22
    ldp     x23, x24, [x1, #40]
    .cfi_same_value x23
    .cfi_same_value x24
    ldp     x25, x26, [x1, #56]
    .cfi_same_value x25
    .cfi_same_value x26
    ldp     x27, x28, [x1, #72]
    .cfi_same_value x27
    .cfi_same_value x28
    ldp     x29, x30, [x1, #88]
    .cfi_same_value x29
    .cfi_same_value x30
    ldp     d8, d9, [x1, #104]
    .cfi_same_value d8
    .cfi_same_value d9
    ldp     d10, d11, [x1, #120]
    .cfi_same_value d10
    .cfi_same_value d11
    ldp     d12, d13, [x1, #136]
    .cfi_same_value d12
    .cfi_same_value d13
    ldp     d14, d15, [x1, #152]
    .cfi_same_value d14
    .cfi_same_value d15

    // `ret`, although the return predictor expects our own caller here and is
    // wrong at every switch. The x86_64 file jumps instead; here that would
    // break under branch target identification: `br` may land only on a `bti`
    // instruction, and what follows the call of a switch is none. `ret` may go
    // anywhere.
    ret
    .cfi_endproc
    .size   janus_context_switch, . - janus_context_switch

// The first instruction of every fiber; reached from janus_context_switch only,
// by `ret`, hence without a `bti`.
//   x19 = entry function, x20 = its argument, x29 = 0, sp + 0 = cleanup.
//
// This is the outermost frame: its caller is marked undefined for DWARF
// unwinders, and a frame record of two zeros ends the chain for frame-pointer
// walkers. The CFA is the top of the usable stack, above the cleanup address.
    .p2align 4
    .globl  janus_fiber_entry
    .hidden janus_fiber_entry
    .type   janus_fiber_entry, %function
    .cfi_startproc
    .cfi_def_cfa_offset 16
    .cfi_undefined x30
    nop                             // unwinders look up "return address - 1", which
                                    // for a fiber that never ran is in this word
janus_fiber_entry:
    stp     x29, xzr, [sp, #-16]!   // 0, 0: end of the frame-pointer chain
    .cfi_adjust_cfa_offset 16
    mov     x29, sp
    .cfi_def_cfa_register x29
    mov     x0, x20
    blr     x19                     // entry(argument)
    mov     x0, x20
    ldp     x29, xzr, [sp], #16
    .cfi_def_cfa sp, 16
    ldr     x9, [sp], #16           // the cleanup function and its padding …
    .cfi_adjust_cfa_offset -16
    blr     x9                      // … called on an empty, aligned stack
    brk     #1                      // cleanup never returns
    .cfi_endproc
    .size   janus_fiber_entry, . - janus_fiber_entry

// void janus_context_observe(const Context *ctx /* x0 */,
//                            void (*visit)(void *) /* x1 */, void *arg /* x2 */)
//
// Calls visit(arg) on the caller's stack, but tells unwinders that the caller is
// the suspended context `ctx`: a backtrace taken inside `visit` goes on in the
// frames of that context. `visit` must not unwind, and `ctx` must stay suspended.
    .p2align 4
    .globl  janus_context_observe
    .hidden janus_context_observe
    .type   janus_context_observe, %function
janus_context_observe:
    .cfi_startproc
    hint    #34                     // bti c
    stp     x19, x30, [sp, #-16]!
    .cfi_adjust_cfa_offset 16
    .cfi_rel_offset x19, 0
    .cfi_rel_offset x30, 8
    mov     x19, x0
    // DW_CFA_def_cfa_expression: *(x19 + 0), the caller's sp once `ctx` goes on.
    // The switch has no frame, so that is the sp it saved. Then as above, with
    // DW_OP_breg19 (x19).
    .cfi_escape 0x0f, 3, 0x83, 0, 0x06
    .cfi_escape 0x10, 19, 2, 0x83, 8        // x19
    .cfi_escape 0x10, 20, 2, 0x83, 16       // x20
    .cfi_escape 0x10, 21, 2, 0x83, 24       // x21
    .cfi_escape 0x10, 22, 2, 0x83, 32       // x22
    .cfi_escape 0x10, 23, 2, 0x83, 40       // x23
    .cfi_escape 0x10, 24, 2, 0x83, 48       // x24
    .cfi_escape 0x10, 25, 2, 0x83, 56       // x25
    .cfi_escape 0x10, 26, 3, 0x83, 0xc0, 0  // x26: 64
    .cfi_escape 0x10, 27, 3, 0x83, 0xc8, 0  // x27: 72
    .cfi_escape 0x10, 28, 3, 0x83, 0xd0, 0  // x28: 80
    .cfi_escape 0x10, 29, 3, 0x83, 0xd8, 0  // x29: 88
    .cfi_escape 0x10, 30, 3, 0x83, 0xe0, 0  // x30: 96, where it goes on
    .cfi_escape 0x10, 72, 3, 0x83, 0xe8, 0  // d8: 104
    .cfi_escape 0x10, 73, 3, 0x83, 0xf0, 0  // d9: 112
    .cfi_escape 0x10, 74, 3, 0x83, 0xf8, 0  // d10: 120
    .cfi_escape 0x10, 75, 3, 0x83, 0x80, 1  // d11: 128
    .cfi_escape 0x10, 76, 3, 0x83, 0x88, 1  // d12: 136
    .cfi_escape 0x10, 77, 3, 0x83, 0x90, 1  // d13: 144
    .cfi_escape 0x10, 78, 3, 0x83, 0x98, 1  // d14: 152
    .cfi_escape 0x10, 79, 3, 0x83, 0xa0, 1  // d15: 160
    mov     x0, x2
    blr     x1
    ldp     x19, x30, [sp], #16
    .cfi_def_cfa sp, 0
    .cfi_same_value x19
    .cfi_same_value x20
    .cfi_same_value x21
    .cfi_same_value x22
    .cfi_same_value x23
    .cfi_same_value x24
    .cfi_same_value x25
    .cfi_same_value x26
    .cfi_same_value x27
    .cfi_same_value x28
    .cfi_same_value x29
    .cfi_same_value x30
    .cfi_same_value d8
    .cfi_same_value d9
    .cfi_same_value d10
    .cfi_same_value d11
    .cfi_same_value d12
    .cfi_same_value d13
    .cfi_same_value d14
    .cfi_same_value d15
    ret
    .cfi_endproc
    .size   janus_context_observe, . - janus_context_observe

    .popsection
    .pushsection .note.GNU-stack, "", %progbits
    .popsection
