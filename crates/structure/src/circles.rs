//! Circles in a graph: sets of nodes of which each reaches each other.

/// The sets of two nodes or more, each in ascending order.
pub(crate) fn circles(nodes: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut next = vec![Vec::new(); nodes];
    edges.iter().for_each(|(from, to)| next[*from].push(*to));
    let reached: Vec<_> = (0..nodes).map(|node| reached_from(node, &next)).collect();
    let mut is_placed = vec![false; nodes];
    let mut circles = Vec::new();
    for node in 0..nodes {
        let circle: Vec<_> = (node..nodes)
            .filter(|other| !is_placed[*other] && reached[node][*other] && reached[*other][node])
            .collect();
        if !is_placed[node] && circle.len() > 1 {
            circle.iter().for_each(|member| is_placed[*member] = true);
            circles.push(circle);
        }
    }
    circles
}

/// Whether each node can be reached from this one; it reaches itself.
fn reached_from(node: usize, next: &[Vec<usize>]) -> Vec<bool> {
    let mut reached = vec![false; next.len()];
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut reached[node], true) {
            open.extend(&next[node]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_circle_is_found_once() {
        let edges = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (5, 0)];
        assert_eq!(circles(6, &edges), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(circles(3, &[(0, 1), (1, 2), (0, 0)]), Vec::<Vec<usize>>::new());
    }
}
