;; Writes out the list of orders from its shorthand (see order-expander.ts). A million orders are a
;; hundred megabytes, each byte of which passes through this loop. It is WebAssembly because a process
;; in which the JavaScript compiler leaves such a loop unoptimized takes three times as long for a list.
(module
  (memory (export "memory") 1)

  ;; Expands the shorthand from $read to $end, writing at $write. Every letter stands for a piece of
  ;; text: $pieces plus 32 times its code is where 24 bytes have the piece, and the next two its
  ;; length before a value and its length before another letter. Up to 8 bytes are read past $end and
  ;; up to 24 written past what counts. Returns the end of it.
  (func (export "expand")
    (param $read i32) (param $end i32) (param $write i32) (param $pieces i32) (result i32)
    (local $word i64) (local $letters i64) (local $digits i32) (local $piece i32)
    (loop $next
      (if (i32.lt_u (local.get $read) (local.get $end))
        (then
          ;; Eight bytes are copied at once; what was too much of them is written over.
          (local.set $word (i64.load (local.get $read)))
          (i64.store (local.get $write) (local.get $word))
          ;; In ASCII letters have this bit, and digits and `-:.` do not.
          (local.set $letters (i64.and (local.get $word) (i64.const 0x4040404040404040)))
          (if (i64.eqz (local.get $letters))
            (then
              (local.set $read (i32.add (local.get $read) (i32.const 8)))
              (local.set $write (i32.add (local.get $write) (i32.const 8))))
            (else
              ;; The bytes before the first letter stand; its piece follows them.
              (local.set $digits
                (i32.shr_u (i32.wrap_i64 (i64.ctz (local.get $letters))) (i32.const 3)))
              (local.set $read (i32.add (local.get $read) (local.get $digits)))
              (local.set $write (i32.add (local.get $write) (local.get $digits)))
              (local.set $piece
                (i32.add (local.get $pieces)
                  (i32.shl (i32.load8_u (local.get $read)) (i32.const 5))))
              (i64.store (local.get $write) (i64.load (local.get $piece)))
              (i64.store offset=8 (local.get $write) (i64.load offset=8 (local.get $piece)))
              (i64.store offset=16 (local.get $write) (i64.load offset=16 (local.get $piece)))
              (local.set $read (i32.add (local.get $read) (i32.const 1)))
              (local.set $write
                (i32.add (local.get $write)
                  (i32.load8_u offset=24
                    (i32.add (local.get $piece)
                      (i32.shr_u (i32.load8_u (local.get $read)) (i32.const 6))))))))
          (br $next))))
    (local.get $write)))
