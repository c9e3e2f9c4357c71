-- The names of lines and counters. Most jobs of a batch share them, so each name is made once.
local names, fields = {}, {}

-- The line of one task in one queue. The length keeps 'a:b' + 'c' apart from 'a' + 'b:c'.
local function line(queue, task)
    local of_queue = names[queue]
    if not of_queue then
        of_queue = {}
        names[queue] = of_queue
    end
    local name = of_queue[task]
    if not name then
        name = #queue .. ':' .. queue .. ':' .. task
        of_queue[task] = name
    end
    return name
end

-- A word, and a name behind it.
local function behind(word, name)
    local of_word = fields[word]
    if not of_word then
        of_word = {}
        fields[word] = of_word
    end
    local field = of_word[name]
    if not field then
        field = word .. ':' .. name
        of_word[name] = field
    end
    return field
end
