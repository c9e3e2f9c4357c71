select topic, name, n from holdfast_counter where topic not in ('arrival', 'return')
