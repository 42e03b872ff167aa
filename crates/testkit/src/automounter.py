# The daemon of automounts.rs: mounts autofs on a directory and, when somebody enters one of its directories, a tmpfs with
# one file there. Says "ready" once it can be used. Ends with the thread that started it, else when it is killed: it holds its
# mount open. Knows the kernel's protocol 5, indirect mounts.
import ctypes, fcntl, os, struct, sys

MISSING_INDIRECT, READY, FAIL, PACKET = 3, 0x9360, 0x9361, 304
SET_PARENT_DEATH_SIGNAL, TERM = 1, 15
libc = ctypes.CDLL(None, use_errno=True)


def mount(kind, path, options):
    if libc.mount(b"automounter", os.fsencode(path), kind, 0, options) != 0:
        raise OSError(ctypes.get_errno(), "mount %s" % kind.decode(), path)


def answer(path, name):
    if name == b"refused":
        return FAIL
    below = os.path.join(os.fsencode(path), name)
    mount(b"tmpfs", below, b"size=1m,mode=0755")
    with open(os.path.join(below, b"file"), "wb") as file:
        file.write(name)
    return READY


def main(path, names):
    # The kernel takes what this process group does for the daemon's own, and does not make it wait.
    os.setpgrp()
    libc.prctl(SET_PARENT_DEATH_SIGNAL, TERM)
    reading, writing = os.pipe()
    options = "fd=%d,pgrp=%d,minproto=5,maxproto=5,indirect" % (writing, os.getpgrp())
    try:
        mount(b"autofs", path, options.encode())
    except OSError as error:
        return print("errno", error.errno, flush=True)
    os.close(writing)
    control = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    for name in names:
        os.mkdir(os.path.join(path, name))
    print("ready", flush=True)
    # Who waits for the daemon is told by a pipe.
    while packet := os.read(reading, PACKET):
        _, kind, token = struct.unpack_from("<iiI", packet)
        (length,) = struct.unpack_from("<I", packet, 40)
        verdict = FAIL
        if kind == MISSING_INDIRECT:
            try:
                verdict = answer(path, packet[44 : 44 + length])
            except OSError as error:
                print(error, file=sys.stderr, flush=True)
        fcntl.ioctl(control, verdict, token)


main(sys.argv[1], sys.argv[2:])
