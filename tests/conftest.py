"""What all tests need of their surroundings."""

import signal

# A shell that starts a job in the background has it ignore Ctrl-C, and so would every process that a test
# starts: they inherit it. With a handler here they begin as from a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
