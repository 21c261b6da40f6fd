//! Lowering: the IR of the examples is correct and metered; opcodes as S0 and S1 name them.

mod support;

use parcae_ir::{
    Debt, Func, Imm, Module, Opcode, Term, insert_checks, lower_tasks, merge_checks, parse,
    place_checks, print, strip_loops, unroll_loops, verify, verify_metering,
};
use parcae_lang::{Profile, Source, lower};
use support::examples;

fn lowered(text: &str) -> Module {
    let source = Source::new("test.jan", text);
    match lower(&source, Profile::Service) {
        Ok(module) => module,
        Err(faults) => {
            let shown: String = faults.iter().map(|fault| fault.render(&source)).collect();
            panic!("{shown}");
        }
    }
}

#[track_caller]
fn assert_correct(module: &Module) {
    let found: Vec<String> = verify(module).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{found:#?}\n{}", print(module));
}

#[track_caller]
fn assert_metered(module: &Module) {
    let found: Vec<String> = verify_metering(module).iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{found:#?}\n{}", print(module));
}

fn count(func: &Func, op: Opcode) -> usize {
    func.blocks.iter().flat_map(|block| &block.insts).filter(|inst| inst.op == op).count()
}

fn func<'m>(module: &'m Module, name: &str) -> &'m Func {
    module.funcs.iter().find(|func| func.name == name).unwrap()
}

#[test]
fn the_examples_are_lowered_correctly_metered_and_printed() {
    for (name, text) in examples() {
        let mut module = lowered(&text);
        println!("{name}");
        assert_correct(&module);
        assert_eq!(parse(&print(&module)).as_ref(), Ok(&module), "{name}");
        assert!(!verify_metering(&module).is_empty(), "{name} has no checks yet");
        insert_checks(&mut module);
        assert_correct(&module);
        assert_metered(&module);
        merge_checks(&mut module);
        for pass in [strip_loops, unroll_loops, lower_tasks] {
            pass(&mut module);
            assert_correct(&module);
            assert_metered(&module);
        }
        assert_eq!(parse(&print(&module)).as_ref(), Ok(&module), "{name}");
    }
}

#[test]
fn dropping_any_check_or_decrement_is_noticed() {
    for (name, text) in examples() {
        let mut naive = lowered(&text);
        insert_checks(&mut naive);
        let mut merged = naive.clone();
        merge_checks(&mut merged);
        let mut placed = merged.clone();
        strip_loops(&mut placed);
        unroll_loops(&mut placed);
        let mut dropped = 0;
        for module in [&naive, &merged, &placed] {
            for (f, b, i) in metering(module) {
                let mut mutant = module.clone();
                let inst = mutant.funcs[f].blocks[b].insts.remove(i);
                let found = verify_metering(&mutant);
                let place = format!("{name}: {:?} at {f} {b} {i}", inst.op);
                assert!(!found.is_empty(), "{place}\n{}", print(&mutant));
                // Another amount is noticed, too.
                if inst.op == Opcode::Budget_Decrement {
                    let mut mutant = module.clone();
                    let inst = &mut mutant.funcs[f].blocks[b].insts[i];
                    (inst.imm, inst.args) = (Imm::Int(9), vec![]);
                    assert!(!verify_metering(&mutant).is_empty(), "{place}");
                }
                dropped += 1;
            }
        }
        assert!(dropped > 0, "{name}");
    }
}

/// The places of all operations that meter.
fn metering(module: &Module) -> Vec<(usize, usize, usize)> {
    let mut found = Vec::new();
    for (f, func) in module.funcs.iter().enumerate() {
        for (b, block) in func.blocks.iter().enumerate() {
            for (i, inst) in block.insts.iter().enumerate() {
                if matches!(
                    inst.op,
                    Opcode::Budget_Check | Opcode::Budget_Decrement | Opcode::Budget_Round
                ) {
                    found.push((f, b, i));
                }
            }
        }
    }
    found
}

/// Loops of each form: a range, an inclusive one, the elements of an array, `break`, a division
/// that may fail, and those that only unrolling knows.
const LOOPS: &str = "func half(n: i64) -> i64 do\nfor i in 0..<n do\nbreak when i * 2 >= n\nend\n\
    var k = 1\nvar rest = n\nwhile k < n do k += k\nrest = rest / 2\nend\nk + rest\nend\n\
    func sum(a: []i64) -> i64 do\nvar s = 0\nfor v in a do s += v end\n\
    for i in 1..10 do s += a[i % a.len] / i end\nwhile true do\nreturn s when s > 5\ns += 1\nend\ns\nend\n\
    func main() do\nvar t = 0\nfor i in 0..<9 do for j in i..9 do t += half(j) end end\nprint(t)\n\
    print(sum([1, 2]))\nend";

#[test]
fn loops_have_no_check_in_their_rounds_and_damage_to_their_form_is_noticed() {
    let mut module = lowered(LOOPS);
    place_checks(&mut module);
    assert_correct(&module);
    assert_metered(&module);
    let all = |op| module.funcs.iter().map(|func| count(func, op)).sum::<usize>();
    assert_eq!(all(Opcode::Budget_Strip), 3, "{}", print(&module));
    assert_eq!(all(Opcode::Budget_Left), 2, "{}", print(&module));
    let mut tried = 0;
    let mut refused = |place: &str, change: &dyn Fn(&mut Module)| {
        let mut mutant = module.clone();
        change(&mut mutant);
        let found = verify(&mutant).into_iter().chain(verify_metering(&mutant)).next();
        assert!(found.is_some(), "{place}\n{}", print(&mutant));
        tried += 1;
    };
    for (f, func) in module.funcs.iter().enumerate() {
        for (b, block) in func.blocks.iter().enumerate() {
            let place = format!("@{} b{b}", func.name);
            if block.owes != Debt::None {
                refused(&format!("{place}: no debt"), &|module| {
                    module.funcs[f].blocks[b].owes = Debt::None;
                });
                refused(&format!("{place}: another debt"), &|module| {
                    module.funcs[f].blocks[b].owes = Debt::Ops(5_000);
                });
            }
            for (i, inst) in block.insts.iter().enumerate() {
                // A gate that tests the end of the loop, and not that of the strip.
                if inst.op == Opcode::Budget_Strip {
                    refused(&format!("{place}: a strip without a bound"), &|module| {
                        let func = &mut module.funcs[f];
                        let blocks = func.blocks.iter_mut();
                        for other in blocks.flat_map(|block| &mut block.insts) {
                            if other.op == Opcode::Less && other.args[1] == inst.result.unwrap() {
                                other.args[1] = inst.args[1];
                            }
                        }
                    });
                }
                // A guard for fewer rounds than are done.
                if inst.op == Opcode::Budget_Left {
                    refused(&format!("{place}: a guard for too few ops"), &|module| {
                        module.funcs[f].blocks[b].insts[i + 1].imm = Imm::Int(1);
                    });
                    refused(&format!("{place}: a guard that is turned around"), &|module| {
                        let term = &mut module.funcs[f].blocks[b].term;
                        if let Term::Branch(_, then, other) = term {
                            std::mem::swap(then, other);
                        }
                    });
                }
            }
        }
    }
    assert!(tried > 40, "{tried}");
}

// The four lowering tests of S1.

// rule: S1-LOWER-4, S1-TEST-5
#[test]
fn await_gives_the_opcode_await() {
    let module = lowered(
        "func f() -> i64 do 1 end\nasync func main() do nursery do let h = spawn f()\nprint(await h) end end",
    );
    assert_eq!(count(func(&module, "main"), Opcode::Await), 1);
}

// rule: S0-IR-6, S1-LOWER-3, S1-TEST-5
#[test]
fn spawn_starts_the_root_of_a_task_in_its_tenancy() {
    let module = lowered("func f() do end\nasync func main() do nursery do spawn f() end end");
    assert_eq!(count(func(&module, "main"), Opcode::Spawn), 1);
    let root = func(&module, "f.task");
    assert_eq!(root.tenancy.name(), "CPU_Parallel");
    assert_eq!(func(&module, "f").tenancy.name(), "CPU_Serial");
}

// rule: S1-LOWER-1, S1-TEST-5
#[test]
fn a_nursery_has_a_begin_and_an_end_that_is_linked_to_it() {
    let module = lowered("func f() do end\nasync func main() do nursery do spawn f() end end");
    let main = func(&module, "main");
    let insts: Vec<_> = main.blocks.iter().flat_map(|block| &block.insts).collect();
    let begin = insts.iter().find(|inst| inst.op == Opcode::Nursery_Begin).unwrap();
    let end = insts.iter().find(|inst| inst.op == Opcode::Nursery_End).unwrap();
    assert_eq!(end.args, [begin.result.unwrap()]);
}

// rule: S1-LOWER-6
#[test]
fn every_exit_ends_the_nurseries_that_it_leaves() {
    let module = lowered(
        "error E { A }\nfunc f() -> i64 ! E do fail E.A end\n\
         async func run(n: i64) -> i64 ! E do\n\
         for i in 0..<n do\nnursery do\nwhile true do\nnursery do\n\
         return 1 when i == 1\nbreak when i == 2\nf()?\nfail E.A when i == 3\nend\n\
         continue when i == 4\nend\nend\nend\n2\nend\n\
         func main() do end",
    );
    assert_correct(&module);
    let run = func(&module, "run");
    assert_eq!(count(run, Opcode::Nursery_Begin), 2);
    // return: 2, break: 1, `?`: 2, fail: 2, end of the inner one: 1, of the outer one: 1.
    assert_eq!(count(run, Opcode::Nursery_End), 9);
    assert_eq!(count(run, Opcode::Nursery_Cancel), 4, "only errors cancel");
    assert_eq!(count(run, Opcode::Nursery_Abort), 2, "one handler each");
}

// rule: S1-TEST-5
#[test]
fn three_spawns_of_a_function_have_one_root() {
    let module = lowered(
        "func f(n: i64) do end\nasync func main() do nursery do spawn f(1) spawn f(2) spawn f(3) end end",
    );
    assert_eq!(count(func(&module, "main"), Opcode::Spawn), 3);
    assert_eq!(module.funcs.len(), 3);
}

// rule: S0-IR-4, S0-IR-5, S1-LOWER-5
#[test]
fn spawns_and_async_calls_become_tasks_and_awaits_become_joins() {
    let mut module = lowered(
        "func f(x: i64) -> i64 do x end\nasync func main() do\nnursery do\n\
         let a = spawn f(1)\nlet b = async f(2)\nprint(await a + await b)\nend\nend",
    );
    let of_main = |module: &Module, op| count(func(module, "main"), op);
    assert_eq!([Opcode::Spawn, Opcode::Async_Call].map(|op| of_main(&module, op)), [1, 1]);
    assert_eq!(of_main(&module, Opcode::Await), 2);
    lower_tasks(&mut module);
    assert_correct(&module);
    let main = func(&module, "main");
    let insts: Vec<_> = main.blocks.iter().flat_map(|block| &block.insts).collect();
    let of = |op| insts.iter().filter(move |inst| inst.op == op);
    let tasks: Vec<_> = of(Opcode::Task_Create).map(|inst| inst.result.unwrap()).collect();
    assert!(of(Opcode::Task_Create).all(|inst| inst.args.len() == 1), "the argument of f");
    let joined: Vec<_> = of(Opcode::Task_Join).map(|inst| inst.args[0]).collect();
    assert_eq!(joined, tasks, "each task is joined by its id");
    assert_eq!(tasks.len(), 2);
}

// rule: S0-IR-1, S0-IR-2
#[test]
fn the_naive_checks_stand_where_the_specification_says() {
    let mut module = lowered(
        "func f(c: Channel) do\nfor i in 0..<3 do\nc.send(i)\nend\nlet a = [1]\nend\nfunc main() do end",
    );
    insert_checks(&mut module);
    let text = print(&module);
    let f: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("func @f"))
        .take_while(|line| *line != "end")
        .map(|line| line.trim().split(" ; ").next().unwrap())
        .collect();
    let at = |needle: &str| f.iter().position(|line| line.contains(needle)).unwrap();
    assert_eq!(f[2..4], ["Budget_Decrement 1", "Budget_Check"], "entry\n{text}");
    assert_eq!(f[at("Channel_Send") - 1], "Budget_Check", "before a channel operation\n{text}");
    let array = at("Array_Construct");
    assert_eq!(f[array + 1..array + 3], ["Budget_Decrement 1", "Budget_Check"], "{text}");
    let back = at("Add");
    assert_eq!(f[back + 1..back + 3], ["Budget_Decrement 1", "Budget_Check"], "back-edge\n{text}");
    assert!(f[back + 3].starts_with("Jump"), "{text}");
}

#[test]
fn merging_charges_leaves_at_their_callers_and_joins_pairs() {
    let text = "func leaf(x: i64) -> i64 do x * x end\nfunc main() do\nprint(leaf(2))\nend";
    let mut module = lowered(text);
    insert_checks(&mut module);
    merge_checks(&mut module);
    assert_metered(&module);
    assert_eq!(count(func(&module, "leaf"), Opcode::Budget_Check), 0);
    let main = func(&module, "main");
    let first = &main.blocks[0].insts;
    let at = first.iter().position(|inst| inst.op == Opcode::Budget_Decrement).unwrap();
    assert_eq!(first[at].imm, parcae_ir::Imm::Int(2), "the entry of main and that of the leaf");
    assert_eq!(first[at + 2].op, Opcode::Call);
}

#[test]
fn a_leaf_that_begins_with_a_channel_operation_keeps_its_check() {
    let text = "func take(c: Channel) -> i64 do c.recv() end\n\
                func main() do\nlet c = channel(1)\nc.send(1)\nprint(take(c))\nend";
    let mut module = lowered(text);
    insert_checks(&mut module);
    merge_checks(&mut module);
    assert_metered(&module);
}

#[test]
fn long_programs_are_lowered_without_recursion() {
    let ifs = "if n > 1 do n += 1 end\n".repeat(5000);
    let module = lowered(&format!("func main() do\nvar n = 0\n{ifs}print(n)\nend"));
    assert_correct(&module);
    let arms: String = (0..3000).map(|i| format!("{i} => print({i}),\n")).collect();
    let module = lowered(&format!("func main() do\nmatch 5 {{\n{arms}else => print(0),\n}}\nend"));
    assert_correct(&module);
}
