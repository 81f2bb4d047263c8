"""What tests call in other processes, which have to import it by its name."""

import os
import signal
import time


def double(number: int) -> int:
    """Twice the number; but 13 and 17 end the process, and what ends in 0 is late, the more so the larger it is."""
    if number == 13:
        os._exit(3)
    if number == 17:
        os.kill(os.getpid(), signal.SIGTERM)
    if number % 10 == 0:
        time.sleep(number / 200)  # those behind overtake it
    return 2 * number
