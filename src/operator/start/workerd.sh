#!/bin/sh
# Becomes workerd. Kills workerd when the process that started it ends, even if that process is killed: the
# system then closes its end of file descriptor 3, over which Miniflare receives messages, and `read` ends.
(read -r _ <&3; kill -KILL $$) >/dev/null 2>&1 </dev/null &
exec "$STORE_ORDERS_WORKERD" "$@"
