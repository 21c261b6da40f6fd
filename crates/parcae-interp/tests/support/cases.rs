//! Statements of the language: what they print, and how they fail.

/// A program with these statements in `main`.
pub(crate) fn main_of(statements: &str) -> String {
    format!(
        "error E {{ A, B }}\nstruct P {{ x: i64, q: Q }}\nstruct Q {{ y: i64 }}\n\
         func may(n: i64) -> i64 ! E do fail E.B when n > 1 n end\n\
         func plain(n: i64) -> i64 do n end\n\
         async func main() do\n{statements}\nend\n"
    )
}

/// Statements and their output.
pub(crate) const STATEMENTS: &[(&str, &str)] = &[
    ("print(7 / 2)\nprint(-7 / 2)\nprint(-7 % 3)\nprint(2 ** 10)", "3\n-3\n-1\n1024\n"),
    ("print(7.0 / 2.0)\nprint(3.0)\nprint(0.1 + 0.2)", "3.5\n3.0\n0.30000000000000004\n"),
    ("print(1 << 4 | 3)\nprint(255 & 15 ^ 1)\nprint(-8 >> 1)", "19\n14\n-4\n"),
    ("let b: u8 = 250\nprint(b + 5)\nprint(i64(b) + 10)\nprint(i32(7))", "255\n260\n7\n"),
    ("for i in 3..1 do print(i) end\nfor i in 1..<1 do print(i) end\nprint(0)", "0\n"),
    ("for i in 9223372036854775806..9223372036854775807 do print(i % 10) end", "6\n7\n"),
    ("for i in 0..5 do continue when i == 1; break when i == 3; print(i) end", "0\n2\n"),
    ("var n = 0\nwhile true do n += 1\nbreak when n > 4 end\nprint(n)", "5\n"),
    ("let a = [1, 2, 3]\nlet b = a\nb[0] = 9\nprint(a[0])\nprint(a[1..<3].len)", "9\n2\n"),
    (
        "var p = P { x: 1, q: Q { y: 2 } }\nlet old = p\np.q.y = 5\nprint(old.q.y)\nprint(p.q.y)",
        "2\n5\n",
    ),
    ("let a = [P { x: 1, q: Q { y: 2 } }]\na[0].q.y += 40\nprint(a[0].q.y)", "42\n"),
    ("print(\"abc\"[1])\nprint(\"hello\"[1..3])\nprint(\"\\n\")\nprint(\"é\".len)", "98\nell\n2\n"),
    ("print($\"{1}{true}{\"x\"}{2.5} \\{{E.A}\\}\\n\")", "1truex2.5 {E.A}\n"),
    (
        "print(\"12\".parse() catch |e| do 0 end)\nprint(\"x\".parse() catch |e| do -1 end)",
        "12\n-1\n",
    ),
    ("print(may(1) catch |e| do 5 end)\nprint(may(2) catch |e| do print(e)\n6 end)", "1\nE.B\n6\n"),
    (
        "match may(2) catch |e| do 9 end { 1 => print(1), n when n > 5 => print(n + 1), else => print(0), }",
        "10\n",
    ),
    ("if plain(1) > 0 and plain(0) == 0 or plain(5) / 0 == 1 do print(1) end", "1\n"),
    (
        "print(wrap_add(9223372036854775807, 1))\nprint(min(3, 2))\nprint(max(1.5, 2.5))\nprint(abs(-3))",
        "-9223372036854775808\n2\n2.5\n3\n",
    ),
    ("let a: []String = []\na.push(\"x\")\na.push(\"y\")\nprint(a.pop() + a[0])", "yx"),
    ("for t in args() do print(t) end\nprint(chr(233) + String(5))", "onetwoé5"),
    (
        "let c = channel(2)\nprint(c.try_send(1))\nprint(c.try_send(2))\nprint(c.try_send(3))\nc.close()\nprint(c.is_closed())",
        "true\ntrue\nfalse\ntrue\n",
    ),
    (
        "let c: Channel[[]String] = channel(1)\nlet a = [\"x\"]\nc.send(a)\na[0] = \"changed\"\nprint(c.recv()[0])",
        "x",
    ),
    ("var n = 0\nnursery do\nn = 1\nlet a = [0]\na[5] = 1\nend catch |e| do print(n) end", "1\n"),
    // The body of a nursery in a task whose memory is used up.
    (
        "nursery with Budget { memory: 50000 } do\nspawn func() do\nnursery do\n\
             let a = array(100000, 0)\nend catch |e| do print(e) end\nend\nend",
        "MemoryBudgetExhausted\n",
    ),
    ("var n = 0\nlet f = func() do n += 1 end\nf()\nf()\nprint(n)", "2\n"),
    ("let r = nursery do spawn plain(3) end\nprint(r)", "0\n"),
    ("let r = nursery do spawn plain(-3) end\nprint(r)", "-3\n"),
    ("nursery do let h = spawn plain(4)\nprint(await h)\nprint(await h) end", "4\n4\n"),
    (
        "nursery do let h = spawn func() do sleep(100000)\nreturn 1 end\ncancel(h) end\nprint(1)",
        "1\n",
    ),
    ("let start = now_ms()\nsleep(30)\nprint(now_ms() - start >= 30)", "true\n"),
];

/// Statements that fail, and the failure.
pub(crate) const FAULTS: &[(&str, &str)] = &[
    ("let n = 9223372036854775807\nprint(n + 1)", "P002 integer overflow"),
    ("let n = -9223372036854775807 - 1\nprint(n / -1)", "P002 integer overflow"),
    ("let n = -9223372036854775807 - 1\nprint(-n)", "P002 integer overflow"),
    ("let b: u8 = 200\nlet c: u8 = 100\nprint(b + c)", "P002 integer overflow"),
    ("let n = 2147483648\nprint(i32(n))", "P002 integer overflow"),
    ("print(i64(1.0e300))", "P002 integer overflow"),
    ("print(1 << plain(64))", "P002 a shift by 64 in 64 bits"),
    ("print(1 / plain(0))", "P003 division by zero"),
    ("print(1 % plain(0))", "P003 division by zero"),
    ("print([1, 2][plain(2)])", "P001 index 2 is out of bounds, the length is 2"),
    ("print([1, 2][plain(-1)])", "P001 index -1 is out of bounds, the length is 2"),
    ("print(\"ab\"[1..<9])", "P001 the range 1..<9 is out of bounds, the length is 2"),
    ("print(array(plain(-1), 0).len)", "P001 an array of -1 elements"),
    ("let a = array(4611686018427387904, 0)\nprint(a.len)", "P006 out of memory"),
    ("assert(1 > 2)", "P004 an assertion failed"),
    ("panic(\"no way\")", "P005 no way"),
    ("let c = channel(0)\nc.close()\nprint(c.recv())", "ChannelClosed"),
    ("let c = channel(-1)", "P002 the capacity of a channel is 0 to 1048576"),
];
