"""The style and the script of an exported page: written out, for the page holds everything. Pure.

The script only searches and folds; without it the page reads all the same.
"""

STYLE = """
:root{color-scheme:light dark;--ink:#1d2126;--soft:#5c6670;--paper:#fdfdfc;--line:#dfe3e6;
--mine:#eef4fb;--box:#f5f6f7;--bad:#b3261e;--mark:#ffe08a;--link:#1b5fa8;--new:#1a6b33}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7ea;--soft:#9aa4ae;--paper:#16191c;
--line:#2c3238;--mine:#1c2733;--box:#1e2226;--bad:#ff8a80;--mark:#7a5c00;--link:#8ab8ec;--new:#7fd49a}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
header{max-width:76rem;margin:0 auto;padding:1.6rem 1.2rem .4rem}
h1{font-size:1.4rem;line-height:1.3;margin:0 0 .3rem;overflow-wrap:anywhere}
header p{margin:.1rem 0;color:var(--soft);font-size:.88rem;overflow-wrap:anywhere}.id{font-family:monospace}
nav{position:sticky;top:0;z-index:1;background:var(--paper);border-bottom:1px solid var(--line);
padding:.6rem 1.2rem;display:flex;gap:1rem;align-items:center;justify-content:center;flex-wrap:wrap}
nav label,#count{color:var(--soft);font-size:.88rem}#count{min-width:5rem}
#find{flex:0 1 26rem;font:inherit;color:inherit;background:var(--box);border:1px solid var(--line);
border-radius:6px;padding:.35rem .6rem}
.columns{display:flex;max-width:76rem;margin:0 auto;gap:2rem;padding:0 1.2rem}
aside{flex:0 0 15rem;font-size:.85rem;position:sticky;top:3.6rem;align-self:flex-start;
max-height:calc(100vh - 4rem);overflow:auto;padding:1rem 0}
aside ol{padding-left:1.4rem;margin:0}aside li{margin:.35rem 0;color:var(--soft)}
aside a{color:inherit;text-decoration:none;overflow-wrap:anywhere}aside a:hover{color:var(--link)}
.agent{list-style:"↳ "}
main{flex:1;min-width:0;padding:1rem 0 6rem}
article{margin:1.2rem 0;overflow-wrap:anywhere}
article p{margin:.6rem 0}article h3{font-size:1.05rem;margin:1.1rem 0 .4rem}
.person{background:var(--mine);border-radius:10px;padding:.4rem 1rem;scroll-margin-top:4rem}
.call,.result,.aside{border-left:3px solid var(--line);padding:.1rem 0 .1rem .9rem;margin:.5rem 0;
font-size:.9rem}
.call b{font-size:.85rem;color:var(--soft)}.result{margin-top:-.3rem}.error{border-color:var(--bad)}
.error pre{color:var(--bad)}
pre{background:var(--box);border-radius:6px;padding:.6rem .8rem;overflow:auto;white-space:pre-wrap;
overflow-wrap:anywhere;font:.84rem/1.45 ui-monospace,monospace;margin:.3rem 0;tab-size:4}
pre.long{max-height:18em;cursor:zoom-in}pre.open{max-height:none;cursor:auto}
code{background:var(--box);border-radius:4px;padding:.1em .3em;font:.88em ui-monospace,monospace}
table{border-collapse:collapse;margin:.6rem 0;display:block;overflow:auto}
th,td{border:1px solid var(--line);padding:.25rem .6rem;text-align:left}
ins,del{text-decoration:none}ins{color:var(--new)}del{color:var(--bad)}
summary{color:var(--soft);cursor:pointer;font-size:.85rem}
.subagent{border:1px solid var(--line);border-radius:10px;padding:.2rem 1rem;margin:2rem 0}
.subagent h2{font-size:1.05rem}img{max-width:100%}.file{color:var(--soft)}
mark{background:var(--mark);color:inherit}mark.now{outline:2px solid var(--link)}
.nocalls .call,.nocalls .result,.nothoughts .aside{display:none}
@media(max-width:52rem){aside{display:none}}
@media print{nav,aside{display:none}pre.long{max-height:none}}
"""

SCRIPT = """
(()=>{
const main=document.querySelector('main'),find=document.getElementById('find'),
count=document.getElementById('count'),calls=document.getElementById('calls'),
thoughts=document.getElementById('thoughts');
let marks=[],now=-1,timer=0;
const show=()=>{main.classList.toggle('nocalls',!calls.checked);
main.classList.toggle('nothoughts',!thoughts.checked)};
calls.onchange=thoughts.onchange=show;show();
main.addEventListener('click',e=>{const p=e.target.closest('pre.long');
if(p&&!String(getSelection()))p.classList.add('open')});
const clear=()=>{for(const m of marks){const p=m.parentNode;if(!p)continue;
p.replaceChild(document.createTextNode(m.textContent),m);p.normalize()}marks=[];now=-1};
const search=()=>{clear();const word=find.value.toLowerCase();
if(word.length<2){count.textContent='';return}
const walk=document.createTreeWalker(main,NodeFilter.SHOW_TEXT),found=[];let node;
while((node=walk.nextNode())){const text=node.data.toLowerCase();let at=text.indexOf(word);
if(at>=0&&text.length===node.data.length)found.push(node)}
for(const node of found){let rest=node,at;
while((at=rest.data.toLowerCase().indexOf(word))>=0&&marks.length<5000){
const hit=rest.splitText(at);rest=hit.splitText(word.length);
const mark=document.createElement('mark');hit.parentNode.replaceChild(mark,hit);
mark.appendChild(hit);marks.push(mark)}}
step(1)};
const step=by=>{if(!marks.length){count.textContent=find.value.length>1?'nothing':'';return}
if(now>=0)marks[now].classList.remove('now');now=(now+by+marks.length)%marks.length;
const mark=marks[now];mark.classList.add('now');const aside=mark.closest('details');
if(aside){aside.open=true;if(!thoughts.checked){thoughts.checked=true;show()}}
if(mark.closest('.call,.result')&&!calls.checked){calls.checked=true;show()}
const long=mark.closest('pre.long');if(long)long.classList.add('open');
mark.scrollIntoView({block:'center'});count.textContent=(now+1)+' of '+marks.length};
find.oninput=()=>{clearTimeout(timer);timer=setTimeout(search,150)};
find.onkeydown=e=>{if(e.key==='Enter'){e.preventDefault();
if(marks.length)step(e.shiftKey?-1:1);else search()}};
addEventListener('keydown',e=>{if(e.key==='/'&&e.target!==find){e.preventDefault();find.focus()}});
})();
"""
