//! Keeps a node's own multicast out of its receive buffer.
//!
//! Multicast comes back to whoever sent it, if he listens; on the loopback interface nothing switches that off. At
//! full speed it would fill the buffer in which repair requests of others should arrive. So the kernel is given a
//! little program (classic BPF) that drops what came from our own address and port before it is queued.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{SockFilter, Socket};

const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const UDP_SOURCE_PORT: u32 = 0;
const IP_HEADER: u32 = libc::SKF_NET_OFF as u32;
const IPV4_SOURCE: u32 = IP_HEADER + 12;
const IPV6_SOURCE: u32 = IP_HEADER + 8;

/// Makes `socket` deaf to datagrams from `own`.
pub(super) fn ignore(socket: &Socket, own: SocketAddr) -> io::Result<()> {
    let source: &[(u32, u32)] = match own.ip() {
        IpAddr::V4(ip) => &[(IPV4_SOURCE, ip.to_bits())],
        IpAddr::V6(ip) => {
            &[0, 1, 2, 3].map(|word| (IPV6_SOURCE + 4 * word, (ip.to_bits() >> (96 - 32 * word)) as u32))
        }
    };
    let comparisons = [(LOAD_HALF, UDP_SOURCE_PORT, u32::from(own.port()))]
        .into_iter()
        .chain(source.iter().map(|&(offset, value)| (LOAD_WORD, offset, value)));
    let mut program = Vec::new();
    let mut left = 1 + source.len() as u8;
    for (load, offset, value) in comparisons {
        left -= 1;
        program.push(SockFilter::new(load, 0, 0, offset));
        // Unequal: over the comparisons left (two instructions each) and the drop, to the last line.
        program.push(SockFilter::new(JUMP_IF_EQUAL, 0, 2 * left + 1, value));
    }
    program.push(SockFilter::new(RETURN, 0, 0, 0));
    program.push(SockFilter::new(RETURN, 0, 0, u32::MAX));
    socket.attach_filter(&program)
}
