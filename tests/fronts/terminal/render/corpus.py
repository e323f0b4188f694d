"""Markdown as models write it, and as nobody should."""

ANSWER = """# What was wrong

The parser kept `state` **between** calls, so the *second* line was read as the first
one's end. See [the docs](https://example.com/a_b) and https://example.org/x.

1. Read the file
2. Find the place:
   ```python
   def f(x: int) -> str:
       '''Says

       it.'''
       return f"{x}"  # done
   ```
3. Change it

   - in one place
     - and in another, which goes on for so long that it wraps in most terminals there are
   - [ ] later
   - [x] now

> A quote with `code`
> over two lines
>
> - and a list

| File | Lines | 説明 |
|:-----|------:|:---:|
| `a.py` | 12 | 漢字 |
| `b/c.py` | 1,200 | a cell whose words go on and on until they need a second line |

```c
/* a comment
 * over lines */
int main(void) { return 0; }
```

***

<details>
<summary>html</summary>
</details>

Setext
------
Last words, without an end"""

CORPUS = [
    ANSWER,
    "- a\n\n- b\n\n  c\n- d\n\nend\n",
    "- deep\n  - deeper\n    - deepest\n\n      words\n\n      ```\n      code\n\n      more\n      ```\n  - back\n",
    "```\nnever closed\n\n  still\n",
    "```js\nconst a = 1 /* x\ny\nz */\n```\nafter\n```\n\n```\n",
    "| a | b |\n|---|---|\n" + "| x `|` y | **z** |\n" * 80 + "\nend\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\nends with words\n\nnext\n",
    "日本語だけの段落です。句読点、そして長い文章が続きます。" * 8 + "\n\n絵文字 👨‍👩‍👧‍👦 ❤️ 🇩🇪 é\n",
    "no newline at all " * 300,
    "**bold that never ends " * 120 + "\n\n" + "`code" * 100,
    "x" * 5000 + " end",
    "```\n" + "y" * 4000 + "\nshort\n```",
    "> " * 30 + "deep\n" + "- " * 30 + "deep\n",
    "a\n      b\n> c\n        d\n",
    "a\nb  \nc\\\nd<br>e\n===\nf\n---\n- \n-\n  x\n",
    "[a]: http://x.y\n\n[a] and [b][a] ![pic](u 'v') <http://auto.link> &amp; \\*\n",
    "\x1b]0;title\x07 and \x1b[2J and \u202ereversed\n```\n\x1b[31mred\r\n\ttab\n```\n",
    "\n\n\n  \n",
    "",
    "|\n|-\n|a\n",
    "# \n#\n\n####### no\n",
    "# " + "long heading " * 120 + "\n\n<!-- html on one line -->\nafter\n",
    "words (in brackets) * a star alone _x_ [y] \\* z) " * 40,
    '```yaml\na: 1\n```\n```json\n{"a": [1, true]}\n```\n```nothing\nx\n```\n',
    "```c\n/* a\nb */ /* c\n"
    + "x\n" * 50
    + "*/\n```\n"
    + "| a | b | c |\n|---|---|---|\n| x | y | z |\n",
]
