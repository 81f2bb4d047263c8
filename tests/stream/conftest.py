"""What all tests of streams may ask for."""

from fronts import each_library, tls_server_side
from measured_memory import only_garbage_of_these_tests

library = each_library
server_side = tls_server_side
collecting_is_quick = only_garbage_of_these_tests
