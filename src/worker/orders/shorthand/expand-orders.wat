;; Converts orders from shorthand to JSON (see README.md). This loop writes every byte of a
;; list: 100 MB for a million orders. The loop is in WebAssembly because V8 leaves the same loop in
;; JavaScript unoptimized in some processes.
(module
  (memory (export "memory") 1)

  ;; Expands the shorthand from $read to $end, writes the JSON at $write and returns the end of the
  ;; JSON. Each letter of the shorthand represents a piece of JSON. The table entry of a letter is
  ;; at $pieces plus 32 times the letter's ASCII code. An entry has 24 bytes of text and two
  ;; numbers: how many bytes to write if a value follows, and how many if another letter
  ;; follows. The loop reads up to 8 bytes past $end and writes up to 24 bytes past the
  ;; returned end.
  (func (export "expand")
    (param $read i32) (param $end i32) (param $write i32) (param $pieces i32) (result i32)
    (local $word i64) (local $letters i64) (local $digits i32) (local $piece i32)
    (loop $next
      (if (i32.lt_u (local.get $read) (local.get $end))
        (then
          ;; Copies eight bytes at once. The next write overwrites them from the first letter on.
          (local.set $word (i64.load (local.get $read)))
          (i64.store (local.get $write) (local.get $word))
          ;; ASCII letters have the bit 0x40; digits and the characters `-:.` do not.
          (local.set $letters (i64.and (local.get $word) (i64.const 0x4040404040404040)))
          (if (i64.eqz (local.get $letters))
            (then
              (local.set $read (i32.add (local.get $read) (i32.const 8)))
              (local.set $write (i32.add (local.get $write) (i32.const 8))))
            (else
              ;; Keeps the bytes before the first letter and writes the letter's piece after them.
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
