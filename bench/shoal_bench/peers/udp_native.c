/* The thesis's native UDP benchmark (5.2, 5.3): one sendto or one recvfrom a message, no protocol.
 *
 * udp_native send ADDRESS PORT INTERFACE SIZE SECONDS
 * udp_native receive ADDRESS PORT INTERFACE SIZE PATIENCE_S
 *
 * INTERFACE is the address of the interface for multicast. The receiver ends after half a second of silence. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count != 7) return 2;
    int sending = strcmp(words[1], "send") == 0, size = atoi(words[5]), on = 1, room = 8 << 20;
    double seconds = atof(words[6]);
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(atoi(words[3]))};
    inet_pton(AF_INET, words[2], &where.sin_addr);
    struct in_addr interface;
    inet_pton(AF_INET, words[4], &interface);
    int group = IN_MULTICAST(ntohl(where.sin_addr.s_addr));
    int opened = socket(AF_INET, SOCK_DGRAM, 0);
    char *body = calloc(1, 65536);
    if (sending) {
        setsockopt(opened, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface);
        long sent = 0;
        double began = now(), at = began;
        for (; at < began + seconds; at = now())
            for (int turn = 0; turn < 64; turn++)
                if (sendto(opened, body, size, 0, (struct sockaddr *)&where, sizeof where) == size) sent++;
        printf("{\"sent\": %ld, \"seconds\": %.6f}\n", sent, at - began);
        return 0;
    }
    setsockopt(opened, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (setsockopt(opened, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room))
        setsockopt(opened, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    if (bind(opened, (struct sockaddr *)&where, sizeof where)) return perror("bind"), 1;
    if (group) {
        struct ip_mreq wanted = {.imr_multiaddr = where.sin_addr, .imr_interface = interface};
        if (setsockopt(opened, IPPROTO_IP, IP_ADD_MEMBERSHIP, &wanted, sizeof wanted)) return perror("join"), 1;
    }
    printf("{\"ready\": true}\n");
    fflush(stdout);
    long received = 0;
    double first = 0, last = 0;
    struct timeval silence = {.tv_sec = (long)seconds};
    setsockopt(opened, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
    while (recvfrom(opened, body, 65536, 0, NULL, NULL) >= 0) {
        last = now();
        if (!received++) {
            first = last;
            silence = (struct timeval){.tv_usec = 500000};
            setsockopt(opened, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
        }
    }
    printf("{\"received\": %ld, \"seconds\": %.6f}\n", received, last - first);
    return 0;
}
