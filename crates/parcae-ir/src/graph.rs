//! Control flow: reachability, dominators, back-edges.
//!
//! Each block is two nodes, its start `2 * b` and its end `2 * b + 1`. A failure leaves a block
//! from its start, so that the values of the block itself do not count as defined in its handler.

use crate::module::Func;

/// Facts about the control flow of one function.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Immediate dominator of each node; `None` if it cannot be reached.
    dominator: Vec<Option<usize>>,
    /// Place of each node in reverse postorder.
    order: Vec<usize>,
}

fn successors(func: &Func, node: usize) -> Vec<usize> {
    let block = &func.blocks[node / 2];
    if node.is_multiple_of(2) {
        let unwind = block.unwind.map(|unwind| 2 * unwind.0 as usize);
        std::iter::once(node + 1).chain(unwind).collect()
    } else {
        block.term.targets().iter().map(|target| 2 * target.block.0 as usize).collect()
    }
}

impl Graph {
    /// All targets must be blocks of the function.
    pub(crate) fn new(func: &Func) -> Graph {
        let count = 2 * func.blocks.len();
        let mut predecessors = vec![Vec::new(); count];
        let (mut seen, mut postorder) = (vec![false; count], Vec::with_capacity(count));
        // Depth first, without recursion.
        let mut stack = vec![(0, 0)];
        seen[0] = true;
        while let Some((node, next)) = stack.pop() {
            let after = successors(func, node);
            if let Some(&to) = after.get(next) {
                stack.push((node, next + 1));
                predecessors[to].push(node);
                if !std::mem::replace(&mut seen[to], true) {
                    stack.push((to, 0));
                }
            } else {
                postorder.push(node);
            }
        }
        let mut order = vec![usize::MAX; count];
        for (at, node) in postorder.iter().rev().enumerate() {
            order[*node] = at;
        }
        // Cooper, Harvey and Kennedy: A Simple, Fast Dominance Algorithm.
        let mut dominator = vec![None; count];
        dominator[0] = Some(0);
        let mut changed = true;
        while changed {
            changed = false;
            for &node in postorder.iter().rev().skip(1) {
                let known = predecessors[node].iter().copied().filter(|p| dominator[*p].is_some());
                let found = known.reduce(|mut a, mut b| {
                    while a != b {
                        if order[a] > order[b] {
                            a = dominator[a].unwrap_or(0);
                        } else {
                            b = dominator[b].unwrap_or(0);
                        }
                    }
                    a
                });
                if dominator[node] != found {
                    dominator[node] = found;
                    changed = true;
                }
            }
        }
        Graph { dominator, order }
    }

    /// The blocks that can be reached, each behind those that dominate it.
    pub(crate) fn order_of_blocks(&self, count: usize) -> Vec<usize> {
        let mut blocks: Vec<usize> = (0..count).filter(|block| self.is_reachable(*block)).collect();
        blocks.sort_by_key(|block| self.order[2 * block]);
        blocks
    }

    pub(crate) fn is_reachable(&self, block: usize) -> bool {
        self.dominator[2 * block].is_some()
    }

    /// Whether the one node comes before the other on every path. A node dominates itself.
    pub(crate) fn dominates(&self, above: usize, mut node: usize) -> bool {
        if self.dominator[node].is_none() || self.dominator[above].is_none() {
            return false;
        }
        while self.order[node] > self.order[above] {
            node = self.dominator[node].unwrap_or(0);
        }
        node == above
    }

    /// Whether an edge between two blocks goes back to a block that dominates it.
    pub(crate) fn is_back_edge(&self, from: usize, to: usize) -> bool {
        self.dominates(2 * to, 2 * from + 1)
    }
}

/// A cycle among nodes, if there is one: the number of a node on it. `next` gives the successors.
pub(crate) fn find_cycle(count: usize, next: impl Fn(usize) -> Vec<usize>) -> Option<usize> {
    // 0 not seen, 1 on the path, 2 done.
    let mut state = vec![0_u8; count];
    for start in 0..count {
        if state[start] != 0 {
            continue;
        }
        let mut stack = vec![(start, next(start), 0)];
        state[start] = 1;
        while let Some((node, after, at)) = stack.pop() {
            let Some(&to) = after.get(at) else {
                state[node] = 2;
                continue;
            };
            stack.push((node, after, at + 1));
            match state[to] {
                0 => {
                    state[to] = 1;
                    stack.push((to, next(to), 0));
                }
                1 => return Some(to),
                _ => {}
            }
        }
    }
    None
}
