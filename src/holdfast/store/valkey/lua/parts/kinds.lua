-- The arithmetic of the kinds of limits, as `holdfast.limits.admission` states it: a row of a bucket, and the
-- settings that count for it. All numbers are whole and below 2^53, where Lua has them exactly.
-- uses: time
-- fills: permits
permits.kinds = {}

do
    local kinds = permits.kinds
    local read, periods, caught_up, in_window = {}, {}, {}, {}

    local function gcd(one, other)
        while other > 0 do
            one, other = other, math.fmod(one, other)
        end
        return one
    end

    local function complete_rate(settings)
        local per = math.floor(settings.per * 1000000 + 0.5)
        if settings.burst then
            local shared = gcd(settings.most, per)
            settings.kind, settings.largest = 'meter', settings.most > 0 and settings.burst or 0
            settings.permit, settings.growth = per / shared, settings.most / shared
        else
            settings.kind, settings.largest = 'window', settings.most
            settings.slice = math.ceil(per / SLICES)
        end
    end

    -- Settings from their JSON, with what follows from them. A rate is a 'window' or, with a burst, a 'meter'.
    function kinds.settings(text)
        if not read[text] then
            local settings = cjson.decode(text)
            for name, value in pairs(settings) do
                settings[name] = value ~= cjson.null and value or nil
            end
            if settings.kind == 'rate' then
                complete_rate(settings)
            else
                settings.largest = settings.most or settings.hard
            end
            read[text] = settings
        end
        return read[text]
    end

    local LENGTHS = {hour = 3600000000, day = 86400000000, month = 30 * 86400000000}

    -- The period of a calendar that this moment lies in, by the starts of periods that `limits/declare` was given.
    -- Beyond them all periods are taken to be equally long.
    local function search(name, every)
        local starts = cmsgpack.unpack(redis.call('HGET', partition .. ':periods', name) or cmsgpack.pack({0}))
        local low, high = 0, #starts
        while low < high do
            local middle = math.ceil((low + high) / 2)
            if starts[middle] <= moment then
                low = middle
            else
                high = middle - 1
            end
        end
        if low > 0 and low < #starts then
            return {starts[low], starts[low + 1]}
        end
        local known, length = starts[math.max(low, 1)], LENGTHS[every]
        local start = known + math.floor((moment - known) / length) * length
        return {start, start + length}
    end

    -- The period found last is kept: nearly always it is the one that is asked for next.
    local function calendar(every, timezone)
        local name = every .. ' ' .. timezone
        local found = redis.call('HGET', partition .. ':periods', '=' .. name)
        local period = found and cmsgpack.unpack(found)
        if not period or moment < period[1] or moment >= period[2] then
            period = search(name, every)
            redis.call('HSET', partition .. ':periods', '=' .. name, cmsgpack.pack(period))
        end
        return period
    end

    -- When the period of a budget began and when it ends, nil if it does not end by itself.
    local function period(settings)
        local every = settings.every
        if not every then
            return 0, nil
        elseif type(every) == 'number' then
            local length = math.floor(every * 1000000 + 0.5)
            local start = moment - math.fmod(moment, length)
            return start, start + length
        end
        local name = every .. ' ' .. settings.timezone
        periods[name] = periods[name] or calendar(every, settings.timezone)
        return periods[name][1], periods[name][2]
    end

    -- The slices that count now: number, units, … After a change of the window's length a slice is taken for one
    -- that ends as late.
    local function window(row, settings)
        local newest, kept, sum = math.floor(moment / settings.slice), {}, 0
        local slices = row[BUCKET_SLICES] or {}
        for n = 1, #slices, 2 do
            local number, last = slices[n], #kept
            if row[BUCKET_SCALE] ~= settings.slice then
                number = math.min(newest, math.floor(((number + 1) * row[BUCKET_SCALE] - 1) / settings.slice))
            end
            if number >= newest - SLICES then
                if last > 0 and kept[last - 1] == number then
                    kept[last] = kept[last] + slices[n + 1]
                else
                    kept[last + 1], kept[last + 2] = number, slices[n + 1]
                end
                sum = sum + slices[n + 1]
            end
        end
        return kept, sum
    end

    local function meter(row, settings)
        local used, scale = row[BUCKET_SPENT], row[BUCKET_SCALE]
        if scale ~= 0 and scale ~= settings.permit then
            used = math.ceil(used * settings.permit / scale)
        end
        return math.max(0, used - settings.growth * math.max(0, moment - row[BUCKET_SINCE]))
    end

    -- Begin a new period, forget what has left the window, drain the meter.
    local function catch_up(row, settings)
        if caught_up[row] == settings then
            return
        end
        caught_up[row] = settings
        if settings.kind == 'window' then
            row[BUCKET_SLICES], in_window[row] = window(row, settings)
            row[BUCKET_SCALE], row[BUCKET_SPENT] = settings.slice, 0 -- a meter's books would be read by this scale
        elseif settings.kind == 'meter' then
            row[BUCKET_SPENT], row[BUCKET_SCALE] = meter(row, settings), settings.permit
            row[BUCKET_SINCE] = math.max(row[BUCKET_SINCE], moment) -- no time drains a meter twice
            row[BUCKET_SLICES] = false
        elseif settings.kind == 'budget' then
            local start = period(settings) -- before the known one if the clock was set back
            if row[BUCKET_SINCE] < start then
                row[BUCKET_SPENT], row[BUCKET_ALARMS], row[BUCKET_SINCE] = 0, 0, start
            end
        end
    end

    -- The largest cost that can ever pass: in this period, of a budget that was topped up.
    function kinds.largest(row, settings)
        if settings.kind ~= 'budget' or row[BUCKET_SPENT] >= 0 then
            return settings.largest
        end
        catch_up(row, settings)
        return settings.hard - row[BUCKET_SPENT]
    end

    -- How much is free, without regard to drains.
    function kinds.left(row, settings)
        if settings.kind == 'concurrency' then
            return settings.most - row[BUCKET_IN_USE]
        end
        catch_up(row, settings)
        if settings.kind == 'window' then
            return settings.most - in_window[row]
        elseif settings.kind == 'meter' then
            local full = settings.burst * settings.permit
            return settings.most > 0 and math.floor((full - row[BUCKET_SPENT]) / settings.permit) or 0
        end
        return settings.hard - row[BUCKET_SPENT] - row[BUCKET_IN_USE]
    end

    local function window_opens(row, settings, cost)
        local over, opens, slices = in_window[row] + cost - settings.most, moment, row[BUCKET_SLICES]
        for n = 1, #slices, 2 do
            if over <= 0 then
                break
            end
            over, opens = over - slices[n + 1], (slices[n] + SLICES + 1) * settings.slice
        end
        return opens
    end

    -- When so much is free, without regard to drains; nil where time alone does not bring it.
    function kinds.opens_at(row, settings, cost)
        if kinds.left(row, settings) >= cost then
            return moment
        elseif cost > kinds.largest(row, settings) or settings.kind == 'concurrency' then
            return nil
        elseif settings.kind == 'window' then
            return window_opens(row, settings, cost)
        elseif settings.kind == 'meter' then
            local over = row[BUCKET_SPENT] + (cost - settings.burst) * settings.permit
            return moment + math.max(0, math.ceil(over / settings.growth))
        end
        local _, ends = period(settings)
        return ends
    end

    -- Note what is to be told of a budget. A bucket that only leads to others has no amounts of its own.
    local function notice(row, settings, is_parent)
        local alarms = row[BUCKET_ALARMS]
        if not is_parent and bit.band(alarms, ALARM_ALONE) == 0 then
            alarms = alarms + ALARM_ALONE
            row[BUCKET_ALARMS] = alarms
        end
        if not row[BUCKET_OVERRIDE] and bit.band(alarms, ALARM_ALONE) == 0 then
            return
        end
        if settings.soft and row[BUCKET_SPENT] + row[BUCKET_IN_USE] >= settings.soft
            and bit.band(alarms, ALARM_SOFT + ALARM_SOFT_TOLD) == 0 then
            alarms = alarms + ALARM_SOFT
        end
        if row[BUCKET_SPENT] > settings.hard and bit.band(alarms, ALARM_OVERRUN + ALARM_OVERRUN_TOLD) == 0 then
            alarms = alarms + ALARM_OVERRUN
        end
        row[BUCKET_ALARMS] = alarms
    end

    local function count_start(row, settings, units)
        local newest, slices = math.floor(moment / settings.slice), row[BUCKET_SLICES]
        local last = #slices
        if last > 0 and slices[last - 1] >= newest then
            slices[last] = slices[last] + units
        else
            slices[last + 1], slices[last + 2] = newest, units
        end
        in_window[row] = in_window[row] + units
    end

    -- Count what begins; `BUCKET_IN_USE` is the lease's part, and counted before.
    function kinds.take(row, settings, units, is_parent)
        if settings.kind == 'concurrency' then
            return
        end
        catch_up(row, settings)
        if settings.kind == 'window' then
            count_start(row, settings, units)
        elseif settings.kind == 'meter' then
            row[BUCKET_SPENT] = row[BUCKET_SPENT] + units * settings.permit
        else
            notice(row, settings, is_parent)
        end
    end

    local function uncount(row, at, units)
        local slices = row[BUCKET_SLICES]
        local back = math.min(units, slices[at + 1])
        slices[at + 1], in_window[row] = slices[at + 1] - back, in_window[row] - back
        return units - back
    end

    -- What was taken at that time has not begun after all. A window forgets it from the slice in which it was counted,
    -- and the rest from older ones; a meter what has not drained since.
    function kinds.untake(row, settings, units, taken_at)
        catch_up(row, settings)
        if settings.kind == 'window' then
            local slices, taken_in = row[BUCKET_SLICES], math.floor(taken_at / settings.slice)
            for n = 1, #slices, 2 do
                units = slices[n] == taken_in and uncount(row, n, units) or units
            end
            for n = 1, #slices, 2 do
                units = slices[n] < taken_in and uncount(row, n, units) or units
            end
        elseif settings.kind == 'meter' then
            local drained = settings.growth * math.max(0, moment - taken_at)
            local back = math.min(row[BUCKET_SPENT], math.max(0, units * settings.permit - drained))
            row[BUCKET_SPENT] = row[BUCKET_SPENT] - back
        end
    end

    -- Add to what a budget has spent; less than 0 gives it back.
    function kinds.spend(row, settings, units, is_parent)
        catch_up(row, settings)
        row[BUCKET_SPENT] = math.max(-ROOMY, math.min(ROOMY, row[BUCKET_SPENT] + units)) -- as far as doubles are exact
        notice(row, settings, is_parent)
    end

    -- What operators added to a budget in this period is in a slice that has the period's beginning for a number.
    local function added(row)
        local slices = row[BUCKET_SLICES]
        return slices and slices[1] == row[BUCKET_SINCE] and slices[2] or 0
    end

    -- An operator lets so much more be spent in this period.
    function kinds.adjust(row, settings, amount)
        kinds.spend(row, settings, -amount, true) -- the bucket is not passed by this
        local sum = math.max(-ROOMY, math.min(ROOMY, added(row) + amount))
        row[BUCKET_SLICES] = {row[BUCKET_SINCE], sum}
    end

    -- Begin the period or the window anew.
    function kinds.forget(row)
        row[BUCKET_SPENT], row[BUCKET_SLICES] = 0, false
        row[BUCKET_ALARMS] = bit.band(row[BUCKET_ALARMS], ALARM_ALONE)
        caught_up[row] = nil
    end

    -- Whether the books of a kind are as those of a new bucket.
    function kinds.keeps_nothing(row, settings)
        catch_up(row, settings)
        if settings.kind == 'budget' and added(row) ~= 0 then
            return false
        end
        return settings.kind == 'concurrency' or (in_window[row] or row[BUCKET_SPENT]) == 0
    end
end
