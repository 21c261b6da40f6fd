//! Generated programs.

/// Programs from a seed: bounded loops, arithmetic, calls, arrays, texts, tasks.
pub(crate) struct Generator {
    state: u64,
    text: String,
    depth: usize,
}

impl Generator {
    fn below(&mut self, n: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % n
    }

    fn expr(&mut self, depth: usize) -> String {
        match if depth == 0 { self.below(3) } else { self.below(9) } {
            0 => self.below(50).to_string(),
            1 => ["a", "b", "c"][self.below(3) as usize].to_owned(),
            2 => {
                let fails = self.below(60) == 0;
                format!("list[{}]", if fails { 5 } else { self.below(5) })
            }
            3 => format!("leaf({})", self.expr(depth - 1)),
            4 => format!("twice({})", self.expr(depth - 1)),
            5 => format!("({} % 7)", self.expr(depth - 1)),
            op => {
                let (left, right) = (self.expr(depth - 1), self.expr(depth - 1));
                format!("({left} {} {right})", ["+", "-", "*"][op as usize - 6])
            }
        }
    }

    fn block(&mut self) {
        for _ in 0..=self.below(4) {
            let line = match if self.depth > 2 { self.below(4) } else { self.below(9) } {
                0 => format!("a = {}", self.expr(2)),
                1 => format!("b = {} % 1000", self.expr(2)),
                2 => format!("list[{}] = {}", self.below(4), self.expr(1)),
                3 => format!("println($\"{{{}}} {{a}}\")", self.expr(1)),
                4 => {
                    let times = self.below(6);
                    let head = format!("for i{} in 0..<{times} do", self.depth);
                    self.nested(&head);
                    continue;
                }
                5 => {
                    let head = format!("if {} > {} do", self.expr(1), self.expr(1));
                    self.nested(&head);
                    continue;
                }
                6 => {
                    let head = format!(
                        "nursery do\nlet h = spawn leaf({})\nc = await h % 100",
                        self.expr(1)
                    );
                    self.nested(&head);
                    self.text += "catch |e| do println($\"{e}\") end\n";
                    continue;
                }
                7 => format!("pipe.send({})\nb = take(pipe)\nprint(text(b))", self.expr(1)),
                _ => format!("c = may({}) catch |e| do a % 5 end", self.expr(1)),
            };
            self.text += &line;
            self.text.push('\n');
        }
    }

    fn nested(&mut self, head: &str) {
        self.text += head;
        self.text.push('\n');
        self.depth += 1;
        self.block();
        self.depth -= 1;
        self.text += "end\n";
    }

    /// The text of a program.
    pub(crate) fn program(seed: u64) -> String {
        let head = "error E { A }\nfunc leaf(x: i64) -> i64 do x % 1000 + 1 end\n\
                    func twice(x: i64) -> i64 do leaf(x) + leaf(x) end\n\
                    func may(x: i64) -> i64 ! E do fail E.A when x % 3 == 0 x end\n\
                    func take(c: Channel) -> i64 do c.recv() end\n\
                    func text(x: i64) -> String do $\"<{x}>\" end\n\
                    async func main() do\nvar a = 1\nvar b = 2\nvar c = 3\nlet list = [1, 2, 3, 4, 5]\nlet pipe = channel(2)\n";
        let state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut generator = Generator { state, text: head.to_owned(), depth: 0 };
        for _ in 0..3 {
            generator.block();
        }
        generator.text += "println($\"{a} {b} {c}\")\nend\n";
        generator.text
    }
}
