//! Maps of networks that are made up, as every node of them sees it.

use super::*;

/// Nodes by number from 1, and what joins them: pairs, and sets that hear each other.
struct World {
    maps: Vec<Map>,
    /// For each link: its ends, as (node, link).
    wires: Vec<Vec<(usize, LinkId)>>,
}

impl World {
    fn new(nodes: usize, routers: impl Fn(usize) -> bool) -> World {
        let map = |node: usize| {
            let mut map = Map::new(7, node as u64 + 1);
            if routers(node) {
                map.set_router();
            }
            map
        };
        World { maps: (0..nodes).map(map).collect(), wires: Vec::new() }
    }

    fn wire(&mut self, nodes: &[usize], is_shared: bool) {
        let number = self.wires.len();
        for &node in nodes {
            self.maps[node].open(number, is_shared);
        }
        self.wires.push(nodes.iter().map(|&node| (node, number)).collect());
    }

    fn cut(&mut self, wire: usize) {
        for (node, link) in std::mem::take(&mut self.wires[wire]) {
            self.maps[node].shut(link);
        }
    }

    /// Everybody hears its neighbours, and what they say, until nothing is new.
    fn settle(&mut self) {
        let routers: Vec<bool> = self.maps.iter().map(|map| map.is_router).collect();
        for ends in &self.wires {
            for &(node, link) in ends {
                let others = ends.iter().filter(|(other, _)| *other != node);
                let neighbours = others.map(|&(other, _)| (other as u64 + 1, routers[other])).collect();
                self.maps[node].set_neighbours(link, neighbours);
            }
        }
        let mut is_new = true;
        while is_new {
            is_new = false;
            for ends in self.wires.clone() {
                for &(from, _) in &ends {
                    if !self.maps[from].takes_part() {
                        continue;
                    }
                    let said: Vec<Vec<u8>> =
                        self.maps[from].known().filter_map(|node| self.maps[from].record(node)).collect();
                    for &(to, _) in ends.iter().filter(|(to, _)| *to != from) {
                        for record in &said {
                            is_new |= self.maps[to].handle(LinkState::read(record).unwrap()).is_some();
                        }
                    }
                }
            }
        }
    }

    /// Which routers and wires are joined, if of each router only these links are used: a number for each, equal where they
    /// are. Panics if two ways join any two of them and there may be one only.
    fn joined(&self, resting: &[BTreeSet<LinkId>], once: bool) -> Vec<usize> {
        let mut group: Vec<usize> = (0..self.maps.len() + self.wires.len()).collect();
        for (number, ends) in self.wires.iter().enumerate() {
            for &(node, link) in ends {
                // A node that is no router joins nothing.
                if !self.maps[node].is_router || resting[node].contains(&link) {
                    continue;
                }
                let (one, two) = (group[node], group[self.maps.len() + number]);
                assert!(one != two || !once, "wire {number} and node {node} are joined already");
                group.iter_mut().filter(|of| **of == one).for_each(|of| *of = two);
            }
        }
        group
    }

    /// Both ends of every wire agree, and what can be joined is, in one way.
    fn check_tree(&self) {
        let resting: Vec<BTreeSet<LinkId>> = self.maps.iter().map(Map::resting).collect();
        for (number, ends) in self.wires.iter().enumerate() {
            if let &[(one, link), (two, other)] = ends.as_slice()
                && !self.maps[one].links[&link].is_shared
            {
                let rests = [resting[one].contains(&link), resting[two].contains(&other)];
                assert_eq!(rests[0], rests[1], "both ends of wire {number} agree");
            }
        }
        let (used, all) =
            (self.joined(&resting, true), self.joined(&vec![BTreeSet::new(); self.maps.len()], false));
        for one in 0..all.len() {
            for two in 0..all.len() {
                let is_wire = |place: usize| {
                    place.checked_sub(self.maps.len()).is_some_and(|wire| {
                        // One between a router and a program that uses another one, or a cut one, joins nobody.
                        let ends = &self.wires[wire];
                        ends.iter().all(|(node, link)| resting[*node].contains(link))
                            || ends.iter().all(|(node, _)| !self.maps[*node].is_router)
                    })
                };
                if all[one] == all[two] && !is_wire(one) && !is_wire(two) {
                    assert_eq!(used[one], used[two], "{one} and {two} are joined");
                }
            }
        }
    }
}

#[test]
fn two_routers_between_two_networks_of_which_one_serves_the_second() {
    let mut world = World::new(2, |_| true);
    world.wire(&[0, 1], true);
    world.wire(&[0, 1], true);
    world.settle();
    assert_eq!(world.maps[0].resting(), BTreeSet::new());
    assert_eq!(world.maps[1].resting().len(), 1);
    world.check_tree();
}

#[test]
fn a_router_that_goes_is_replaced() {
    let mut world = World::new(2, |_| true);
    world.wire(&[0, 1], true);
    world.wire(&[0, 1], true);
    world.settle();
    world.wires = vec![vec![(1, 0)], vec![(1, 1)]];
    world.settle();
    assert_eq!(world.maps[1].resting(), BTreeSet::new());
}

#[test]
fn a_circle_of_routers_has_one_link_that_rests() {
    let mut world = World::new(3, |_| true);
    world.wire(&[0, 1], false);
    world.wire(&[1, 2], false);
    world.wire(&[2, 0], false);
    world.settle();
    world.check_tree();
    assert_eq!(world.maps[1].resting(), BTreeSet::from([1]));
    world.cut(0);
    world.settle();
    assert_eq!(world.maps[1].resting(), BTreeSet::new(), "and is used when another one is cut");
    world.check_tree();
}

#[test]
fn a_program_with_two_links_to_routers_that_are_joined_uses_one_and_of_others_both() {
    let mut world = World::new(3, |node| node < 2);
    world.wire(&[0, 2], false);
    world.wire(&[1, 2], false);
    world.settle();
    assert_eq!(world.maps[2].resting(), BTreeSet::new(), "it is in two networks");
    world.wire(&[0, 1], false);
    world.settle();
    assert_eq!(world.maps[2].resting(), BTreeSet::from([1]));
    assert_eq!(world.maps[1].resting(), BTreeSet::from([1]), "the other end agrees");
    world.check_tree();
}

#[test]
fn what_is_on_a_network_is_not_asked_of_a_router() {
    // A program on a network that a router serves, and linked to that router, and to another program there.
    let mut world = World::new(3, |node| node == 0);
    world.wire(&[0, 1, 2], true);
    world.wire(&[0, 1], false);
    world.wire(&[1, 2], false);
    world.settle();
    assert_eq!(world.maps[1].resting(), BTreeSet::from([1, 2]));
    assert_eq!(world.maps[2].resting(), BTreeSet::from([2]));
    assert_eq!(world.maps[0].resting(), BTreeSet::from([1]));
}

#[test]
fn without_routers_every_link_is_used_but_one_to_somebody_who_is_heard_anyway() {
    let mut world = World::new(3, |_| false);
    world.wire(&[0, 1], false);
    world.wire(&[1, 2], false);
    world.wire(&[0, 2], true);
    world.settle();
    for map in &world.maps {
        assert_eq!(map.resting(), BTreeSet::new());
    }
}

#[test]
fn in_any_network_all_routers_and_networks_are_joined_and_in_one_way() {
    for seed in 0..300u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let nodes = random.usize(2..30);
        let mut world = World::new(nodes, |node| node % 5 != 4);
        let mut shuffled: Vec<usize> = (0..nodes).collect();
        // A way between all, and some more.
        random.shuffle(&mut shuffled);
        for pair in shuffled.windows(2) {
            world.wire(pair, random.u8(..4) == 0);
        }
        for _ in 0..random.usize(0..nodes) {
            let count = random.usize(2..5).min(nodes);
            random.shuffle(&mut shuffled);
            let chosen = shuffled[..count].to_vec();
            // Two nodes have one link with each other.
            let is_joined = |ends: &Vec<(usize, LinkId)>| {
                ends.len() == 2 && ends.iter().all(|(node, _)| chosen[..2].contains(node))
            };
            let is_shared = random.bool() || world.wires.iter().any(is_joined);
            world.wire(if is_shared { &chosen } else { &chosen[..2] }, is_shared);
        }
        // Somebody says what some of them cost, at one end or at several.
        for number in 0..world.wires.len() {
            for (node, link) in world.wires[number].clone() {
                if random.u8(..3) == 0 {
                    world.maps[node].set_cost(link, NonZeroU32::new(random.u32(1..20)));
                }
            }
        }
        world.settle();
        println!("seed {seed}");
        world.check_tree();
        for _ in 0..random.usize(0..4) {
            let wire = random.usize(..world.wires.len());
            world.cut(wire);
            world.settle();
            world.check_tree();
        }
    }
}

#[test]
fn a_broken_link_is_used_only_if_there_is_no_other_way() {
    let mut circle = World::new(3, |_| true);
    circle.wire(&[0, 1], false);
    circle.wire(&[1, 2], false);
    circle.wire(&[2, 0], false);
    circle.settle();
    assert_eq!(circle.maps.iter().map(|map| map.resting().len()).sum::<usize>(), 2, "one link, at both ends");
    circle.maps[0].set_suspected(0, true);
    circle.maps[1].set_suspected(0, true);
    circle.settle();
    assert_eq!(circle.maps[0].resting(), BTreeSet::from([0]));
    assert_eq!(circle.maps[1].resting(), BTreeSet::from([0]));
    assert_eq!(circle.maps[2].resting(), BTreeSet::new());
    circle.maps[0].set_suspected(0, false);
    circle.maps[1].set_suspected(0, false);
    circle.settle();
    assert_eq!(circle.maps[0].resting(), BTreeSet::new());

    let mut pair = World::new(2, |_| true);
    pair.wire(&[0, 1], false);
    pair.settle();
    pair.maps[0].set_suspected(0, true);
    assert_eq!(pair.maps[0].resting(), BTreeSet::new(), "what is for the other side waits there");
}

#[test]
fn a_link_that_costs_more_rests_and_one_that_costs_less_is_used() {
    let mut circle = World::new(3, |_| true);
    circle.wire(&[0, 1], false);
    circle.wire(&[1, 2], false);
    circle.wire(&[2, 0], false);
    circle.settle();
    assert_eq!(circle.maps[1].resting(), BTreeSet::from([1]));
    circle.maps[1].set_cost(0, NonZeroU32::new(5));
    circle.settle();
    circle.check_tree();
    assert_eq!(circle.maps[0].resting(), BTreeSet::from([0]), "one end said so, and both agree");
    circle.maps[1].set_cost(0, None);
    circle.settle();
    assert_eq!(circle.maps[0].resting(), BTreeSet::new());

    // A program with two links uses the cheaper one, though the other one is nearer to the root.
    let mut world = World::new(3, |node| node < 2);
    world.wire(&[0, 1], false);
    world.wire(&[0, 2], false);
    world.wire(&[1, 2], false);
    world.settle();
    assert_eq!(world.maps[2].resting(), BTreeSet::from([2]));
    world.maps[2].set_cost(1, NonZeroU32::new(3));
    world.settle();
    assert_eq!(world.maps[2].resting(), BTreeSet::from([1]));
    assert_eq!(world.maps[0].resting(), BTreeSet::from([1]), "the other end agrees");
}

#[test]
fn a_broken_router_is_not_waited_for_if_it_serves_nobody_and_all_beside_it_are_reached_another_way() {
    // Three routers in a circle, and a program at the third.
    let circle = |serves: bool, joins: bool| {
        let mut world = World::new(4, |node| node < 3);
        world.wire(&[0, 1], false);
        world.wire(&[1, 2], false);
        if joins {
            world.wire(&[2, 0], false);
        }
        if serves {
            world.wire(&[2, 3], false);
        }
        world.settle();
        world.maps[1].set_suspected(1, true);
        if joins {
            world.maps[0].set_suspected(2, true);
        }
        // Whoever crashed says nothing.
        let said = [0, 1].map(|node| world.maps[node].record(node as u64 + 1).unwrap());
        world.maps[0].handle(LinkState::read(&said[1]).unwrap());
        world.maps[1].handle(LinkState::read(&said[0]).unwrap());
        world
    };
    assert_eq!(circle(false, true).maps[1].broken(), BTreeSet::from([1]));
    assert_eq!(circle(false, true).maps[0].broken(), BTreeSet::from([2]));
    assert_eq!(circle(false, false).maps[1].broken(), BTreeSet::from([1]), "nobody else is beside it");
    assert_eq!(circle(true, true).maps[1].broken(), BTreeSet::new(), "a program is behind it");
    let mut reads = circle(false, true);
    let mut state = LinkState::read(&reads.maps[1].record(3).unwrap()).unwrap();
    (state.serves, state.version) = (true, 99);
    reads.maps[1].handle(state);
    assert_eq!(reads.maps[1].broken(), BTreeSet::new(), "its own programs want something");

    // Behind the third is a fourth that nobody else reaches, or a network with a program.
    let mut row = World::new(4, |_| true);
    row.wire(&[0, 1], false);
    row.wire(&[1, 2], false);
    row.wire(&[2, 3], false);
    row.settle();
    row.maps[1].set_suspected(1, true);
    assert_eq!(row.maps[1].broken(), BTreeSet::new());
    let mut lan = World::new(4, |node| node < 3);
    lan.wire(&[0, 1], false);
    lan.wire(&[1, 2], false);
    lan.wire(&[2, 3], true);
    lan.settle();
    lan.maps[1].set_suspected(1, true);
    assert_eq!(lan.maps[1].broken(), BTreeSet::new());
}

#[test]
fn neighbours_that_a_node_claims_are_bounded() {
    let mut map = Map::new(1, 5);
    map.set_router();
    map.open(0, true);
    let neighbours: BTreeMap<u64, bool> = (10..10_000).map(|node| (node, true)).collect();
    map.set_neighbours(0, neighbours.clone());
    let own = LinkState::read(&map.record(5).unwrap()).unwrap();
    assert_eq!(own.links[0].neighbours.len(), NEIGHBOURS_MAX);
    let links = vec![
        Reach {
            is_shared: true,
            cost: None,
            has_programs: false,
            neighbours: neighbours.into_keys().collect()
        };
        3
    ];
    map.handle(LinkState { domain: 1, publisher: 10, version: 1, is_router: true, serves: false, links });
    let found = map.network();
    assert_eq!(found.iter().map(|(node, ..)| *node).collect::<Vec<_>>(), [10, 5]);
    assert_eq!(found[0].2.iter().map(|link| link.neighbours.len()).sum::<usize>(), NEIGHBOURS_MAX);
}

#[test]
fn a_false_state_of_a_router_is_contradicted_by_that_router() {
    let mut world = World::new(3, |_| true);
    world.wire(&[0, 1], false);
    world.wire(&[1, 2], false);
    world.settle();
    let forged = |version| LinkState {
        domain: 7,
        publisher: 2,
        version,
        is_router: true,
        serves: false,
        links: Vec::new(),
    };
    let before = world.maps[1].version;
    world.maps[0].handle(forged(before + 100)).unwrap();
    assert!(world.maps[0].nodes[&2].links.is_empty());
    world.settle();
    assert!(world.maps[1].version > before + 100);
    for map in &world.maps {
        assert_eq!(map.network().iter().find(|(node, ..)| *node == 2).unwrap().2.len(), 2);
        assert!(map.resting().is_empty());
    }
    let own = world.maps[1].told_state();
    assert_eq!(world.maps[1].handle(own), None, "an echo is no false state");
    assert_eq!(world.maps[1].handle(forged(0)), None, "nobody takes an old state for newer");
    let contradicted = (1..).find(|_| {
        let version = world.maps[1].version + 1;
        world.maps[1].handle(forged(version)).is_none()
    });
    assert_eq!(contradicted, Some(CONTRADICTIONS_MAX), "two nodes of one id do not shout for ever");
}
