#!/bin/sh
# Becomes workerd. Kills workerd when the parent process ends, even if it is killed: the system then
# closes the parent's end of file descriptor 3, the pipe from workerd to Miniflare, and `read` ends.
(read -r _ <&3; kill -KILL $$) >/dev/null 2>&1 </dev/null &
exec "$STORE_ORDERS_WORKERD" "$@"
